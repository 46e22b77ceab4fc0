// Heads turned by their positions (ops/rope.h): a pair of elements, and, for the gradient, rows that a group
// of warps still holds as sums (group_sums.cuh).
#pragma once

#include <cstdint>

namespace tessera::cuda {

// By an angle with this cosine and sine.
__device__ inline void turn_pair(float& x, float& y, float cosine, float sine) {
  const float first = x, second = y;
  x = first * cosine - second * sine;
  y = second * cosine + first * sine;
}

// Back, of C[64, kDims], whose rows are a head's from `first` on: element i turns with element i + kDims / 2,
// both of which a thread has. `turns`: [rows, kDims / 2] of (cosine, sine).
template <int kDims>
__device__ void turn_rows_back(float (&c)[kDims / 2], const float* turns, int first, int rows) {
  constexpr int kHalf = kDims / 16;  // in groups of eight columns
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int below = 0; below < 2; ++below) {
    const int row = first + warp * 16 + lane / 4 + 8 * below;
    if (row >= rows) continue;
    const auto* const of_row = reinterpret_cast<const float4*>(turns + std::int64_t{row} * kDims) + lane % 4;
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      const float4 of = of_row[4 * j];  // of columns 8j + 2t and the next
      float* const x = c + 4 * j + 2 * below;
      float* const y = x + 4 * kHalf;
      turn_pair(x[0], y[0], of.x, -of.y);
      turn_pair(x[1], y[1], of.z, -of.w);
    }
  }
}

}  // namespace tessera::cuda
