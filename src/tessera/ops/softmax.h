// softmax over the innermost dim, and the constant that makes attention causal: causal_mask[T, T] is 0
// on and below the diagonal and -infinity above, to be added to the scores.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct CausalMaskAttrs {
  ValueType type;  // [T, T]
  void describe(AttrWriter& write) const { write("type", type.text()); }
};

ValueId softmax(Graph& graph, std::string name, ValueId x);
ValueId causal_mask(Graph& graph, std::string name, DType dtype, std::int64_t seq_len);

}  // namespace tessera
