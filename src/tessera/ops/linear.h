// linear: y = x W^T (+ bias), the matrix product of every layer. Weights are stored [out, in].
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

// x[..., K], weight[N, K], bias[N] or kNoValue -> [..., N]
ValueId linear(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId bias = kNoValue);

}  // namespace tessera
