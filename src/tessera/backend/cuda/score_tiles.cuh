// Scores as C tiles of 16 queries and kTiles * 8 keys (mma.cuh): which of them are none. For the kernels of
// attention whose warps own queries.
#pragma once

#include <math_constants.h>

#include "tessera/backend/cuda/attention_keep.cuh"

namespace tessera::cuda {

// Hides the scores of keys that a query does not see, and of those from num_keys on. They are of queries from
// `query` and of keys from k0 on.
template <int kTiles>
__device__ void hide_unseen(bool causal, int num_keys, int query, int k0, float (&scores)[kTiles][4]) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = k0 + 8 * n + 2 * t + i % 2, row = query + g + i / 2 * 8;
      if (key >= num_keys || (causal && key > row)) scores[n][i] = -CUDART_INF_F;
    }
  }
}

// Zeroes what is dropped; `query` is the first row of the probabilities in the tile.
template <int kQueries, int kKeys>
__device__ void drop(const KeepTile<true, kQueries, kKeys>& keep, int query, float (&probs)[kKeys / 8][4]) {
  static_assert(kKeys / 8 <= alignof(KeepTile<true, kQueries, kKeys>));
  struct alignas(kKeys / 8) Row {  // loaded at once
    std::uint32_t words[kKeys / 32];
  };
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Row row = *reinterpret_cast<const Row*>(keep.bits[query + g + 8 * half]);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const std::uint32_t own = row.words[n / 4] >> (2 * t);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (((own >> (n % 4 * 8 + i)) & 1) == 0) probs[n][2 * half + i] = 0;
      }
    }
  }
}

}  // namespace tessera::cuda
