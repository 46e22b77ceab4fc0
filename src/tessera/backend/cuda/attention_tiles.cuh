// What the kernels of causal attention and of its gradient on Hopper share: groups of four warps, each of
// which computes for 64 rows, and the way of tiles and scores through them.
#pragma once

#include "tessera/backend/cuda/bulk_copy.cuh"
#include "tessera/backend/cuda/group_sums.cuh"
#include "tessera/backend/cuda/warpgroup_mma.cuh"

namespace tessera::cuda {

inline constexpr int kGroupWarps = 4;
inline constexpr int kGroupRows = 64;
inline constexpr int kSixteenColumns = 32, kSixteenRows = 16 * kTileRowBytes;  // bytes, within a tile

// Rows of a head, of which there are `head` before it in the packed row, to a tile for every 64 columns.
template <int kHalves, int kBytes>
__device__ void copy_rows(std::uint8_t (&to)[kHalves][kBytes], const CUtensorMap& map, int batch, int head,
                          int row, SharedBarrier& arrives) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const int column = (head * kHalves + half) * kTileColumns;
    copy_box(shared_address_of(to[half]), map, column, row, batch, arrives);
  }
}

// For a barrier that counts warps.
__device__ inline void arrive_as_warp(SharedBarrier& barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier.arrive();
}

// Counts the uses of a ring of buffers; a barrier's phase has the parity of its use.
template <int kNum>
struct Ring {
  int uses = 0;
  __device__ int at() const { return uses % kNum; }
  __device__ unsigned parity() const { return static_cast<unsigned>(uses / kNum) & 1; }
};

// Numbers of work that one thread hands to warps, at most two ahead of them.
class HandedItems {
 public:
  __device__ void init(unsigned warps) {
    for (int i = 0; i < 2; ++i) full_[i].init(1), empty_[i].init(warps);
  }
  __device__ void hand(Ring<2> use, int item) {
    empty_[use.at()].wait(use.parity() ^ 1);
    items_[use.at()] = item;
    full_[use.at()].arrive();
  }
  // By all lanes of a warp, of which the first reads and says so.
  __device__ int take(Ring<2> use) {
    int item = 0;
    full_[use.at()].wait(use.parity());
    __syncwarp();  // a lane that came later could find the barrier two phases on, and wait for ever
    if (threadIdx.x % 32 == 0) {
      item = items_[use.at()];
      empty_[use.at()].arrive();
    }
    return __shfl_sync(0xffffffff, item, 0);
  }

 private:
  SharedBarrier full_[2], empty_[2];
  int items_[2];
};

// Scores[64, 16 kNum] as A of products.
template <int kNum>
__device__ void round_to_weights(const float (&scores)[8 * kNum], std::uint32_t (&weights)[kNum][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kNum; ++i) weights[i / 4][i % 4] = round_pair(scores[2 * i], scores[2 * i + 1]);
}

// c[64, rows of b] = 64 rows of a times rows of b, all of kDims columns; the tiles of 64 columns lie so many
// bytes apart. One group of products is begun.
template <int kDims, int kNum>
__device__ void begin_rows_by_rows(std::uint64_t a, int next_a_bytes, std::uint64_t b, int next_b_bytes,
                                   float (&c)[kNum]) {
  begin_products();
#pragma unroll
  for (int k = 0; k < kDims / 16; ++k) {
    const int half = k / 4, columns = k % 4 * kSixteenColumns;
    multiply_tiles<BRows::kAlongK>(behind(a, half * next_a_bytes + columns),
                                   behind(b, half * next_b_bytes + columns), k > 0, c);
  }
  end_product_group();
}
// c[64, dims] (+)= weights[64, 16 kWeights] rows of b; likewise.
template <int kWeights, int kNum>
__device__ void begin_weighted_sum(const std::uint32_t (&weights)[kWeights][4], std::uint64_t b, bool add,
                                   float (&c)[kNum]) {
  begin_products();
#pragma unroll
  for (int k = 0; k < kWeights; ++k) multiply_tile(weights[k], behind(b, k * kSixteenRows), add || k > 0, c);
  end_product_group();
}

}  // namespace tessera::cuda
