// add_positions: adds rows of a learned position table, the first T unless told otherwise, to every sequence
// of a batch.
#pragma once

#include "tessera/ops/cut_range.h"
#include "tessera/ops/op_def.h"

namespace tessera {

struct AddPositionsAttrs {
  CutRange sequence = {};  // of a cut sequence a rank adds the rows of its own positions
  void describe(AttrWriter& write) const { sequence.describe(write, "sequence"); }
};

// x[B, T, D], table[P, D] with P >= T -> [B, T, D]
// first i32[1]: the position of the first token, for a text that is continued; tokens behind the table have
// its last row. kNoValue: 0. With it the op has no gradient.
ValueId add_positions(Graph& graph, std::string name, ValueId x, ValueId table, ValueId first = kNoValue);

}  // namespace tessera
