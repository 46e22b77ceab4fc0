// embedding: rows of a table chosen by ids.
#pragma once

#include "tessera/ops/cut_range.h"
#include "tessera/ops/op_def.h"

namespace tessera {

// Of a cut vocabulary a rank looks up its own rows and gives zeros for the others: a term of a sum.
struct EmbeddingAttrs {
  CutRange vocabulary = {};
  std::int64_t padding_id = -1;  // looked up like others, but its row gets no gradient from here; -1: none
  void describe(AttrWriter& write) const {
    vocabulary.describe(write, "vocabulary");
    if (padding_id >= 0) write("padding_id", padding_id);
  }
};

// table[V, D], ids[...] -> [..., D]
ValueId embedding(Graph& graph, std::string name, ValueId table, ValueId ids, std::int64_t padding_id = -1);

}  // namespace tessera
