// What the gradients of rms_norm and layer_norm share: rows are dealt to a fixed number of blocks, each of
// which keeps its sums of the weights' gradients in shared memory over all of its rows; column_sums adds the
// blocks' sums up.
#pragma once

#include "tessera/backend/cuda/column_sums.h"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/reduce.cuh"

namespace tessera::cuda {

inline constexpr unsigned kNormGradThreads = 512;

// Enough blocks for every multiprocessor, more where rows are short.
inline std::int64_t norm_parts(MatrixShape shape) {
  constexpr std::int64_t kMultiprocessors = 132, kPartialElems = 1 << 20;
  const std::int64_t parts =
      std::clamp(kPartialElems / shape.columns, kMultiprocessors, 8 * kMultiprocessors);
  return std::min(parts, shape.rows);
}

// `sums`: how many weights the norm has.
inline std::int64_t norm_grad_workspace_bytes(MatrixShape shape, std::int64_t sums) {
  const std::int64_t parts = norm_parts(shape);
  return sums * parts * shape.columns * static_cast<std::int64_t>(sizeof(float)) +
         column_sums_workspace_bytes({parts, shape.columns});
}

// A block's sums of one weight's gradient. Element i of pack p lies at [i, p]: neighbouring threads use
// neighbouring banks. Every thread touches only its own packs, so no barrier is needed.
template <int W>
struct SharedSums {
  float* sums;
  unsigned packs;

  __device__ SharedSums(float* shared, std::int64_t columns)
      : sums(shared), packs(static_cast<unsigned>(columns / W)) {
    for (unsigned p = threadIdx.x; p < packs; p += blockDim.x) {
#pragma unroll
      for (int i = 0; i < W; ++i) sums[i * packs + p] = 0;
    }
  }
  __device__ void add(unsigned pack, int i, float value) {
    sums[i * packs + pack] += value;
  }
  __device__ void write(float* to) const {
    for (unsigned p = threadIdx.x; p < packs; p += blockDim.x) {
#pragma unroll
      for (int i = 0; i < W; ++i) to[p * W + i] = sums[i * packs + p];
    }
  }
};

}  // namespace tessera::cuda
