// sgd: stochastic gradient descent with momentum, as torch.optim.SGD does it: the decay is added to the
// gradient, and the momentum starts from zeros and grows undampened.
#pragma once

#include "tessera/ops/update_operands.h"

namespace tessera {

struct SgdAttrs {
  double momentum = 0.9, weight_decay = 0.0;
  FlatRange range = {};
  void describe(AttrWriter& write) const {
    write("momentum", momentum);
    write("weight_decay", weight_decay);
    range.describe(write);
  }
};

struct SgdInputs {
  ValueId param, grad, momentum;
  ValueId low = kNoValue;
  ValueId learning_rate, clip_factor;
};
// Appends the node and its state updates.
void sgd(Graph& graph, std::string name, const SgdInputs& in, const SgdAttrs& attrs);

}  // namespace tessera
