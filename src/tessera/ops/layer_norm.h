// layer_norm: y = (x - mean) / sqrt(variance + eps) * weight + bias, over the innermost dim.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct LayerNormAttrs {
  double eps = 1e-5;
  void describe(AttrWriter& write) const { write("eps", eps); }
};

// x[..., D], weight[D], bias[D] -> [..., D]. Two more outputs keep mean and 1/deviation of every row.
ValueId layer_norm(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId bias, double eps);

}  // namespace tessera
