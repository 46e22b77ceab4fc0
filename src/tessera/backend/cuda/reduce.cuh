// Sums and maxima over the threads of a warp or a block, in a fixed order; every thread gets the result.
#pragma once

#include <cuda_runtime.h>

namespace tessera::cuda {

struct Sum {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Max {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a < b ? b : a;
  }
};

// Over aligned groups of `kLanes` lanes. A butterfly: all lanes combine the same pairs, so all agree to the
// bit.
template <int kLanes = 32, class V, class Op>
__device__ V reduce_lanes(V value, Op op) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// For all threads of a one-dimensional block of whole warps.
template <class V, class Op>
__device__ V reduce_block(V value, Op op, V identity) {
  __shared__ V of_warp[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = reduce_lanes(value, op);
  __syncthreads();  // the readers of an earlier reduction are done
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  return reduce_lanes(lane < blockDim.x / 32 ? of_warp[lane] : identity, op);
}

template <class V>
__device__ V block_sum(V value) {
  return reduce_block(value, Sum{}, V{0});
}

}  // namespace tessera::cuda
