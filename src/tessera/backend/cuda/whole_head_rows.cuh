// What whole_head_attention's two kernels share: eight warps, each of which owns 16 tokens of a head, and the
// way of a head's rows into shared memory and out again.
#pragma once

#include "tessera/backend/cuda/async_copy.cuh"
#include "tessera/backend/cuda/mma.cuh"
#include "tessera/backend/cuda/whole_head_attention.h"

namespace tessera::cuda {

inline constexpr int kTokensPerWarp = 16, kWholeHeadThreads = 32 * kWholeHeadTokens / kTokensPerWarp;
inline constexpr int kPacksOfRow = kWholeHeadDims / 8;

using HeadRows = SharedRows<kWholeHeadTokens, kWholeHeadDims>;

// All rows of a head, zero behind the last token; on their way until the caller waits for its copies and the
// block has synchronized.
__device__ inline void begin_copy(const BFloat* head, std::int64_t row_stride, int seq, HeadRows& to) {
#pragma unroll
  for (int i = 0; i < kWholeHeadTokens * kPacksOfRow / kWholeHeadThreads; ++i) {
    const int at = i * kWholeHeadThreads + static_cast<int>(threadIdx.x);
    const int row = at / kPacksOfRow, column = at % kPacksOfRow * 8;
    if (row < seq) {
      copy_async<16>(&to.rows[row][column], head + row * row_stride + column);
    } else {
      *reinterpret_cast<uint4*>(&to.rows[row][column]) = make_uint4(0, 0, 0, 0);
    }
  }
}

// The warp's 16 rows, from C tiles to a head, each row times its half's factor. They pass through the warp's
// own rows of `through`, which nobody else may still read, to be written as whole lines.
__device__ inline void store_own_rows(const float (&tiles)[kWholeHeadDims / 8][4], const float (&factors)[2],
                                      int seq, HeadRows& through, BFloat* head, std::int64_t row_stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const int first = static_cast<int>(threadIdx.x) / 32 * kTokensPerWarp;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kWholeHeadDims / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<std::uint32_t*>(&through.rows[first + g + 8 * half][8 * n + 2 * t]) =
          round_pair(tiles[n][2 * half] * factors[half], tiles[n][2 * half + 1] * factors[half]);
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kTokensPerWarp * kPacksOfRow / 32; ++i) {
    const int row = first + (32 * i + lane) / kPacksOfRow, column = lane % kPacksOfRow * 8;
    if (row < seq) {
      *reinterpret_cast<uint4*>(head + row * row_stride + column) =
          *reinterpret_cast<const uint4*>(&through.rows[row][column]);
    }
  }
}

}  // namespace tessera::cuda
