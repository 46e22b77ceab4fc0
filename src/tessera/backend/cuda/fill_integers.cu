#include "tessera/backend/cuda/fill_integers.h"
#include "tessera/backend/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

__global__ void fill(std::int32_t* to, int count, std::int32_t value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = value;
}

}  // namespace

void fill_integers(cudaStream_t stream, std::int32_t* to, int count, std::int32_t value) {
  fill<<<num_blocks(count, kThreads), kThreads, 0, stream>>>(to, count, value);
}

}  // namespace tessera::cuda
