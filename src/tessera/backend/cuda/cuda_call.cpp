#include "tessera/backend/cuda/cuda_call.h"

#include "tessera/base/error.h"

namespace tessera::cuda {

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // or the next launch would be blamed for it
  fail("cuda: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace tessera::cuda
