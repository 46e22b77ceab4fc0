// Which collectives run beside the main stream, and the scratch they need. Used by the CUDA device.
#pragma once

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

// Those that send something, where the ranks' GPUs can talk: their kernels give their work to the context's
// side stream, which knows what to wait for.
bool runs_beside(Op op, const KernelCall& call);

std::int64_t collective_workspace_bytes(const Graph& graph, const Node& node);

}  // namespace tessera::cuda
