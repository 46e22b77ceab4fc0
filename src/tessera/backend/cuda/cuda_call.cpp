#include "tessera/backend/cuda/cuda_call.h"

#include "tessera/base/error.h"

namespace tessera::cuda {

void check_cuda(cudaError_t status, const char* what) {
  TS_CHECK(status == cudaSuccess, "cuda: {}: {} ({})", what, cudaGetErrorString(status),
           cudaGetErrorName(status));
}

}  // namespace tessera::cuda
