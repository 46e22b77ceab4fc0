// dropout_add: y = residual + dropout(x). Which elements drop is a function of (seed, step, stream,
// element of the global batch), computed again wherever it is needed instead of stored: the same in the
// gradient, under recompute, however the batch is cut into micro-batches and on every layout.
#pragma once

#include "tessera/ops/cut_range.h"
#include "tessera/ops/op_def.h"

namespace tessera {

struct DropoutAttrs {
  double rate = 0.0;
  std::int64_t stream = 0;  // which dropout of the model this is
  // One dim of x may be a rank's part; that the first dim is, the key's first sequence says.
  int cut_dim = 0;
  CutRange cut = {};
  void describe(AttrWriter& write) const {
    write("rate", rate);
    write("stream", stream);
    if (cut.cut) write("cut_dim", cut_dim);
    cut.describe(write, "cut");
  }
};

// The random counters of a micro-batch, i32[4]: seed (low, high), step, and which sequence of the global
// batch its first row is.
inline const ValueType kDropoutKeyType{DType::i32, Shape{4}};

// x and residual of one shape; residual may be kNoValue (plain dropout); key: kDropoutKeyType
ValueId dropout_add(Graph& graph, std::string name, ValueId x, ValueId residual, ValueId key,
                    DropoutAttrs attrs);

}  // namespace tessera
