// Pairs of nodes that run as one on the GPU: which they are, and how. A product with the activation after it,
// or with the gradient of the one before it; an addition with the norm after it; a norm's gradient with the
// addition it goes into; attention's gradient with the turning back of its heads. Not a weight's gradient
// with its bias's: cuBLASLt's product slows down by more than the sums take alone. Asked by the CUDA device
// when it plans and when it runs.
#pragma once

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

bool fuses(const Graph& graph, const Node& first, const Node& second);
// Where the shapes at hand do not allow one kernel, the two run one after the other: false.
bool run_pair(Op first_op, const KernelCall& first, Op second_op, const KernelCall& second, Context& context);

}  // namespace tessera::cuda
