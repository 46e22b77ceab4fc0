// Calls of the CUDA runtime: their failures as Errors that name what was being done.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::cuda {

// Throws "cuda: <what>: <the runtime's words>" unless the call succeeded.
void check_cuda(cudaError_t status, const char* what);

}  // namespace tessera::cuda
