// run_on_host: a collective through host memory, for ranks whose GPUs cannot talk: operands are copied there,
// the host device's kernel works on the copies with the communicator, and its results are copied back.
#pragma once

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

void run_on_host(Op op, const KernelCall& call, Context& context);

}  // namespace tessera::cuda
