// PackRing: a thread's packs of the rows to come, on their way from global to shared memory while it works on
// the row before them. Nobody else reads them, so the ring needs no barrier. Used by the norms' gradients.
#pragma once

#include <cstdint>

#include "tessera/backend/cuda/async_copy.cuh"

namespace tessera::cuda {

// Of a thread: packs of `kTensors` tensors and kStats numbers of the next rows. What neighbouring threads
// have lies side by side.
template <int kTensors, int kStats, int kOwned>
struct PackRing {
  uint4* packs;
  float* stats;
  unsigned threads;

  static constexpr std::int64_t kStageBytes = kTensors * kOwned * 16 + kStats * 4;  // a thread's, of a row

  __device__ PackRing(uint4* shared, int stages)
      : packs(shared + threadIdx.y * blockDim.x + threadIdx.x), threads(blockDim.x * blockDim.y) {
    stats = reinterpret_cast<float*>(shared + stages * kTensors * kOwned * threads) +
            threadIdx.y * blockDim.x + threadIdx.x;
  }
  __device__ uint4* pack(int stage, int tensor, int p) const {
    return packs + ((stage * kTensors + tensor) * kOwned + p) * threads;
  }
  __device__ float* stat(int stage, int which) const { return stats + (stage * kStats + which) * threads; }
};

inline constexpr int kMostStages = 3;

// Until the oldest of `stages` groups is complete.
__device__ inline void wait_for_oldest(int stages) {
  if (stages == 3) {
    wait_for_copies<2>();
  } else if (stages == 2) {
    wait_for_copies<1>();
  } else {
    wait_for_copies<0>();
  }
}

}  // namespace tessera::cuda
