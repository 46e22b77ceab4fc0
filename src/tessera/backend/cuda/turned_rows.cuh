// Heads turned back by their positions (rope's gradient, ops/rope.h) while a group of warps still holds them
// as sums (group_sums.cuh).
#pragma once

#include <cstdint>

namespace tessera::cuda {

// Of C[64, kDims], whose rows are a head's from `first` on: element i turns with element i + kDims / 2, both
// of which a thread has. `turns`: [rows, kDims / 2] of (cosine, sine).
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
      const float cosine[2] = {of.x, of.z}, sine[2] = {of.y, of.w};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float &x = c[4 * j + 2 * below + i], &y = c[4 * (j + kHalf) + 2 * below + i];
        const float first_half = x, second_half = y;
        x = first_half * cosine[i] + second_half * sine[i];
        y = second_half * cosine[i] - first_half * sine[i];
      }
    }
  }
}

}  // namespace tessera::cuda
