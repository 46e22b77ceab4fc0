// The ops of the update program: sum_squares and clip_factor for clipping by the global norm, and
// adamw, which updates a parameter, its moments and (under bf16) its fp32 master copy in one pass and
// clears the gradient accumulator for the next step.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct ClipFactorAttrs {
  double max_norm = 0.0;  // 0: report the norm, clip nothing
  void describe(AttrWriter& write) const { write("max_norm", max_norm); }
};

struct AdamWAttrs {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
  void describe(AttrWriter& write) const {
    write("beta1", beta1);
    write("beta2", beta2);
    write("eps", eps);
    write("weight_decay", weight_decay);
  }
};

// x -> [] sum of its squares, added up in double
ValueId sum_squares(Graph& graph, std::string name, ValueId x);

struct ClipValues {
  ValueId norm, factor;  // both []
};
ClipValues clip_factor(Graph& graph, std::string name, std::vector<ValueId> sums_of_squares, double max_norm);

struct AdamWInputs {
  ValueId param, grad, moment1, moment2;
  ValueId master = kNoValue;  // the fp32 copy that is updated when the parameter is bf16
  ValueId learning_rate, step, clip_factor;
};
// Appends the node and its state updates.
void adamw(Graph& graph, std::string name, const AdamWInputs& inputs, const AdamWAttrs& attrs);

}  // namespace tessera
