// What rms_norm, layer_norm and their gradients share: which threads own which part of a row, so that it is
// read once and stays in registers.
//
// A row of up to 128 packs is a warp's, and a block has eight rows; a wider one is a block's. Thread t of the
// n threads of a row owns its packs t, t + n, ...: at most four (gradients, norm_grad.cuh: seven). Rows that
// are no whole packs, or have more of them than a block can own, go the slower way of norm_any_width.cuh.
#pragma once

#include "tessera/backend/cuda/column_sums.h"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/reduce.cuh"

namespace tessera::cuda {

enum class Norm { rms, layer };

// Weights that have a gradient: rms_norm has no bias.
template <Norm kNorm>
inline constexpr int kNormSums = kNorm == Norm::layer ? 2 : 1;

template <Norm kNorm>
__device__ float affine(float normed, float weight, float bias) {
  return kNorm == Norm::layer ? fmaf(normed, weight, bias) : normed * weight;
}

struct RowLayout {
  static constexpr unsigned kMostThreads = 512, kWarpRows = 8;
  static constexpr std::int64_t kMostOwned = 4;

  int owned = 0;         // packs of a thread
  unsigned threads = 0;  // of a row
  unsigned rows = 0;     // of a block

  dim3 block() const { return {threads, rows}; }
  unsigned block_threads() const { return threads * rows; }
};

inline bool layout_fits(std::int64_t packs) {
  return packs <= RowLayout::kMostThreads * RowLayout::kMostOwned;
}

// Four packs only where three do not do: a layer_norm's gradient has its registers full with three.
inline RowLayout row_layout(std::int64_t packs) {
  static_assert(kThreads <= RowLayout::kMostThreads);
  constexpr std::int64_t kMost = RowLayout::kMostOwned;
  if (packs <= kMost * kWarp) {
    return {static_cast<int>(num_blocks(packs, kWarp)), kWarp, RowLayout::kWarpRows};
  }
  const std::int64_t owned = packs <= (kMost - 1) * RowLayout::kMostThreads
                                 ? std::min<std::int64_t>(kMost - 1, num_blocks(packs, kThreads))
                                 : kMost;
  return {static_cast<int>(owned), row_threads(num_blocks(packs, owned), 1, RowLayout::kMostThreads), 1};
}

// Calls f with std::integral_constant<int, packs of a thread> and std::bool_constant<a row is a warp's>.
template <class F>
void with_row_layout(const RowLayout& layout, F&& f) {
  const auto with_owned = [&](auto owned) {
    layout.rows > 1 ? f(owned, std::true_type{}) : f(owned, std::false_type{});
  };
  switch (layout.owned) {
    case 1:
      return with_owned(std::integral_constant<int, 1>{});
    case 2:
      return with_owned(std::integral_constant<int, 2>{});
    case 3:
      return with_owned(std::integral_constant<int, 3>{});
    default:
      TS_ASSERT(layout.owned == 4);
      return with_owned(std::integral_constant<int, 4>{});
  }
}

// First column of a thread's pack p; it may lie behind the row's end.
template <int W>
__device__ int own_column(int p) {
  return static_cast<int>(p * blockDim.x + threadIdx.x) * W;
}

inline constexpr int kRowWarps = RowLayout::kMostThreads / kWarp;

// N sums over the threads of a row, on each of them: lanes first, then warps in their order. Between two
// calls with one `of_warp` the block must have passed another barrier: callers take two in turn.
template <bool kWarpRow, int N>
__device__ void sum_over_row(float (&values)[N], float (&of_warp)[kRowWarps][N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = reduce_lanes(values[i], Sum{});
  if constexpr (!kWarpRow) {
    if (threadIdx.x % kWarp == 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) of_warp[threadIdx.x / kWarp][i] = values[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = 0;
    for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) {
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] += of_warp[warp][i];
    }
  }
}

}  // namespace tessera::cuda
