// dropout_add: y = residual + dropout(x). Which elements drop is a function of (seed, step,
// micro-batch, stream, element), computed again wherever it is needed instead of stored: the same in
// the gradient, under recompute and on every layout.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct DropoutAttrs {
  double rate = 0.0;
  std::int64_t stream = 0;  // which dropout of the model this is
  void describe(AttrWriter& write) const {
    write("rate", rate);
    write("stream", stream);
  }
};

// The random counters of a micro-batch, i32[4]: seed (low, high), step, micro-batch number.
inline const ValueType kDropoutKeyType{DType::i32, Shape{4}};

// x and residual of one shape; residual may be kNoValue (plain dropout); key: kDropoutKeyType
ValueId dropout_add(Graph& graph, std::string name, ValueId x, ValueId residual, ValueId key, DropoutAttrs attrs);

}  // namespace tessera
