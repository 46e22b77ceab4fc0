// add_positions: adds the first T rows of a learned position table to every sequence of a batch.
#pragma once

#include "tessera/ops/cut_range.h"
#include "tessera/ops/op_def.h"

namespace tessera {

struct AddPositionsAttrs {
  CutRange sequence = {};  // of a cut sequence a rank adds the rows of its own positions
  void describe(AttrWriter& write) const { sequence.describe(write, "sequence"); }
};

// x[B, T, D], table[P, D] with P >= T -> [B, T, D]
ValueId add_positions(Graph& graph, std::string name, ValueId x, ValueId table);

}  // namespace tessera
