// A matrix C[64, N] of fp32 sums, as the four warps of a group hold it after their products
// (warpgroup_mma.cuh), to rows of bf16.
#pragma once

#include "tessera/backend/cuda/mma.cuh"

namespace tessera::cuda {

inline constexpr int kGroupThreads = 128;

// C[64, 8 kPacks] in memory: thread by thread.
template <int kPacks>
using GroupSums = float4[kPacks][kGroupThreads];

// Four lanes t hold columns 2t, 2t+1 each of four groups of eight columns; afterwards each has all eight of
// group t. In two steps, each with the lane whose number differs in one bit.
__device__ inline uint4 gather_columns(const std::uint32_t (&pairs)[4]) {
  const bool high = (threadIdx.x & 2) != 0, odd = (threadIdx.x & 1) != 0;
  const auto exchanged = [](std::uint32_t given, int bit) { return __shfl_xor_sync(0xffffffff, given, bit); };
  // Of groups 2 (t / 2) and the one behind it: what is here and what lane t ^ 2 has.
  const std::uint32_t own[2] = {high ? pairs[2] : pairs[0], high ? pairs[3] : pairs[1]};
  const std::uint32_t far[2] = {exchanged(high ? pairs[0] : pairs[2], 2),
                                exchanged(high ? pairs[1] : pairs[3], 2)};
  // Of group t: what the lanes t, t ^ 1, t ^ 2 and t ^ 3 have.
  const std::uint32_t mine = odd ? own[1] : own[0], near = exchanged(odd ? own[0] : own[1], 1);
  const std::uint32_t mine_far = odd ? far[1] : far[0], near_far = exchanged(odd ? far[0] : far[1], 1);
  const uint2 half = odd ? make_uint2(near, mine) : make_uint2(mine, near);
  const uint2 other = odd ? make_uint2(near_far, mine_far) : make_uint2(mine_far, near_far);
  return high ? make_uint4(other.x, other.y, half.x, half.y) : make_uint4(half.x, half.y, other.x, other.y);
}

// C times a factor to the rows from `first` on, as far as there are `rows` of them; N a multiple of 32.
template <int kNum>
__device__ void store_rows(const float (&c)[kNum], float factor, BFloat* to, std::int64_t row_stride,
                           int first, int rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int below = 0; below < 2; ++below) {
    const int row = first + warp * 16 + lane / 4 + 8 * below;
#pragma unroll
    for (int part = 0; part < kNum / 16; ++part) {
      std::uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const at = c + 4 * (4 * part + i) + 2 * below;
        pairs[i] = round_pair(at[0] * factor, at[1] * factor);
      }
      const uint4 columns = gather_columns(pairs);
      if (row < rows) {
        *reinterpret_cast<uint4*>(to + row * row_stride + 32 * part + 8 * (lane % 4)) = columns;
      }
    }
  }
}

}  // namespace tessera::cuda
