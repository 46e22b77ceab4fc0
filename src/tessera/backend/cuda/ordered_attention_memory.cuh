// What the warps of ordered_attention_grad.cu share: the call, and the thread block's tiles with the barriers
// that say when one is full or may be filled again.
#pragma once

#include "tessera/backend/cuda/attention.h"
#include "tessera/backend/cuda/attention_tiles.cuh"
#include "tessera/backend/cuda/keep_words.cuh"
#include "tessera/backend/cuda/ordered_attention_order.h"

namespace tessera::cuda {

inline constexpr int kGroups = 2;         // of four warps, that compute: each half of a block's keys
inline constexpr int kStages = 2;         // of tiles of queries
inline constexpr int kDScoreBuffers = 3;  // see begin_query_grads

inline constexpr int kQuerySumPacks = 8;  // either group's part of a tile's dq: 64 x 64,
template <int kDims>
inline constexpr bool kByColumns = kDims == 128;  // half of its columns, else of its rows

template <int kDims>
struct GradCall {
  CUtensorMap queries = {}, keys = {}, dout = {};  // boxes of a tile's or a block's rows and 64 columns
  AttentionShape shape = {};
  GradOrder<kDims> order = {};
  float *lse = nullptr, *delta = nullptr;           // [heads, padded_seq]; lse times log2(e)
  GroupSums<kQuerySumPacks>* query_sums = nullptr;  // [heads, tiles, groups]
  GroupSums<kDims / 8>* key_sums = nullptr;  // [heads, blocks, groups, {dk, dv}]; null if no heads share keys
  unsigned* turns = nullptr;                 // [heads, tiles, groups]: how many blocks have added
  int* next_item = nullptr;
  BFloat* dqkv = nullptr;
  const float* turns_of_rows = nullptr;  // AttentionGradOperands' turns
  // Of what drops; rows are keys of a group, columns tiles.
  KeepTable<kTileQueries<kDims> / kGroupRows> keep = {};
};

template <int kDims>
struct GradMemory {
  static constexpr int kHalves = kDims / kTileColumns;
  static constexpr int kQueryRowsBytes = kTileQueries<kDims> * kTileRowBytes;
  using Keys = std::uint8_t[kHalves][kBlockKeys * kTileRowBytes];
  using Queries = std::uint8_t[kHalves][kQueryRowsBytes];

  alignas(1024) Keys k;
  Keys v;
  Queries q[kStages], dout[kStages];
  std::uint8_t dscores[kDScoreBuffers][kGroups][kQueryRowsBytes];  // a row per query, 64 keys of either group
  GroupSums<kQuerySumPacks> dq[kGroups];
  float lse[kStages][kTileQueries<kDims>], delta[kStages][kTileQueries<kDims>];
  SharedBarrier k_full, v_full, keys_empty;
  SharedBarrier q_full[kStages], q_empty[kStages], dout_full[kStages], dout_empty[kStages];
  SharedBarrier dscores_full[kDScoreBuffers], dq_full[kGroups], dq_empty[kGroups];
  HandedItems items;

  // By one thread, before any other comes.
  __device__ void init() {
    constexpr unsigned kEach = kGroups * kGroupWarps;  // warps that compute
    constexpr unsigned kAll = kEach * 32;              // and their threads, which read lse and delta
    k_full.init(1), v_full.init(1), keys_empty.init(kEach);
    for (int i = 0; i < kStages; ++i) {
      q_full[i].init(1), q_empty[i].init(kAll), dout_full[i].init(1), dout_empty[i].init(kAll);
    }
    for (SharedBarrier& full : dscores_full) full.init(kEach);
    for (int i = 0; i < kGroups; ++i) dq_full[i].init(kGroupWarps), dq_empty[i].init(1);
    items.init(kEach + kGroups);
    show_shared_to_engines();
  }
};

// Calls f(pass) for every pass of this thread block; the warp's lanes all take part.
template <int kDims, class F>
__device__ void for_each_pass(const GradCall<kDims>& call, GradMemory<kDims>& s, F&& f) {
  for (Ring<2> items;; ++items.uses) {
    const int item = s.items.take(items);
    if (item >= call.order.items()) return;
    for (int which = 0; which < 2; ++which) {
      const Pass pass = call.order.pass(item, which);
      if (pass.num_tiles > 0) f(pass);
    }
  }
}

}  // namespace tessera::cuda
