// The softmax of a row that one block owns: softmax(x)[c] = exp(x[c] - max) / sum. Used by softmax and the
// losses. Rows need not be whole packs: what is behind the last pack goes one by one.
#pragma once

#include <math_constants.h>

#include "tessera/backend/cuda/element.cuh"
#include "tessera/backend/cuda/reduce.cuh"

namespace tessera::cuda {

struct RowSummary {
  float max, sum;
};

struct CombineSummaries {
  __device__ RowSummary operator()(RowSummary a, RowSummary b) const {
    const float max = fmaxf(a.max, b.max);
    // Equal maxima need no scaling; of two empty rows both are -infinity.
    return {max, (a.max == max ? a.sum : a.sum * expf(a.max - max)) +
                     (b.max == max ? b.sum : b.sum * expf(b.max - max))};
  }
};

__device__ inline RowSummary empty_row() {
  return {-CUDART_INF_F, 0.0f};
}

// As reduce_block, of two numbers at once.
__device__ inline RowSummary combine_block(RowSummary own) {
  __shared__ float max_of_warp[32], sum_of_warp[32];
  const CombineSummaries combine;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto over_lanes = [&](RowSummary row) {
    for (int distance = 16; distance > 0; distance /= 2) {
      const RowSummary other{__shfl_xor_sync(0xffffffffu, row.max, distance),
                             __shfl_xor_sync(0xffffffffu, row.sum, distance)};
      row = combine(row, other);
    }
    return row;
  };
  own = over_lanes(own);
  __syncthreads();
  if (lane == 0) {
    max_of_warp[warp] = own.max;
    sum_of_warp[warp] = own.sum;
  }
  __syncthreads();
  return over_lanes(lane < blockDim.x / 32 ? RowSummary{max_of_warp[lane], sum_of_warp[lane]} : empty_row());
}

// Calls f(pack's first column, std::integral_constant<int, width>) for the columns of a thread.
template <int W, class F>
__device__ void for_each_own_pack(std::int64_t columns, F&& f) {
  const std::int64_t whole = columns / W * W;
  for (std::int64_t c = std::int64_t{threadIdx.x} * W; c < whole; c += std::int64_t{blockDim.x} * W) {
    f(c, std::integral_constant<int, W>{});
  }
  if constexpr (W > 1) {
    for (std::int64_t c = whole + threadIdx.x; c < columns; c += blockDim.x)
      f(c, std::integral_constant<int, 1>{});
  }
}

// Of all columns, on every thread of the block.
template <int W, class T>
__device__ RowSummary summarize_row(const T* x, std::int64_t columns) {
  RowSummary own = empty_row();
  for_each_own_pack<W>(columns, [&](std::int64_t c, auto width) {
    float v[width.value];
    load<width.value>(x + c, v);
    float max = own.max;
#pragma unroll
    for (int i = 0; i < width.value; ++i) max = fmaxf(max, v[i]);
    float sum = own.max == max ? own.sum : own.sum * expf(own.max - max);
    if (max > -CUDART_INF_F) {
#pragma unroll
      for (int i = 0; i < width.value; ++i) sum += expf(v[i] - max);
    } else {  // minus infinity, which adds nothing; or NaN, which the maximum passes over
#pragma unroll
      for (int i = 0; i < width.value; ++i) sum += v[i] == v[i] ? 0.0f : v[i];
    }
    own = {max, sum};
  });
  return combine_block(own);
}

// y = softmax(x) * scale; y may lie on x if both have one type.
template <int W, class T, class Y>
__device__ void write_softmax(const T* x, RowSummary row, float scale, Y* y, std::int64_t columns) {
  const float factor = scale / row.sum;
  for_each_own_pack<W>(columns, [&](std::int64_t c, auto width) {
    float v[width.value];
    load<width.value>(x + c, v);
#pragma unroll
    for (int i = 0; i < width.value; ++i) v[i] = expf(v[i] - row.max) * factor;
    store<width.value>(y + c, v);
  });
}

}  // namespace tessera::cuda
