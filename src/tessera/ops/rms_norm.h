// rms_norm: y = x / sqrt(mean(x^2) + eps) * weight, over the innermost dim (Zhang and Sennrich, 2019).
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

struct RmsNormAttrs {
  double eps = 1e-5;
  void describe(AttrWriter& write) const { write("eps", eps); }
};

// x[..., D], weight[D] -> [..., D]. A second output keeps 1/rms of every row for the gradient.
ValueId rms_norm(Graph& graph, std::string name, ValueId x, ValueId weight, double eps);

}  // namespace tessera
