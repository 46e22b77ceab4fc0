// embedding: rows of a table chosen by ids.
#pragma once

#include "tessera/ops/cut_range.h"
#include "tessera/ops/op_def.h"

namespace tessera {

// Of a cut vocabulary a rank looks up its own rows and gives zeros for the others: a term of a sum.
struct EmbeddingAttrs {
  CutRange vocabulary = {};
  void describe(AttrWriter& write) const { vocabulary.describe(write, "vocabulary"); }
};

// table[V, D], ids[...] -> [..., D]
ValueId embedding(Graph& graph, std::string name, ValueId table, ValueId ids);

}  // namespace tessera
