// A thread block holds a tile of queries and walks over the blocks of keys that it sees, from the diagonal
// down. Two or three groups of four warps compute, each for 64 of the queries; of every block of keys a group
// begins
//   S = Q K^T of this block, O += P V of the block before,
// and computes the exponentials of S while the other groups' products run: the groups begin theirs in turn.
// (Its own O may run meanwhile, too, but where nothing drops ptxas 13.0 puts the exponentials behind it.) A
// warp beside them brings the tiles. What is dropped is known before (keep_words.cuh).
#include "tessera/backend/cuda/attention_keep.cuh"
#include "tessera/backend/cuda/attention_rows.cuh"
#include "tessera/backend/cuda/attention_tiles.cuh"
#include "tessera/backend/cuda/causal_attention.h"
#include "tessera/backend/cuda/causal_attention_order.h"
#include "tessera/backend/cuda/instructions.cuh"
#include "tessera/backend/cuda/keep_words.cuh"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/tile_map.h"
#include "tessera/base/alignment.h"

namespace tessera::cuda {
namespace {

constexpr int kBlockKeys = 128;

// As many as the registers allow.
template <int kDims>
constexpr int kQueryGroups = kDims == 64 ? 3 : 2;
template <int kDims>
constexpr int kTileQueries = kQueryGroups<kDims>* kGroupRows;
template <int kDims>
using Tiles = QueryTiles<kQueryGroups<kDims>, kGroupRows, kBlockKeys>;

template <int kDims>
struct Call {
  CUtensorMap queries = {}, keys = {};  // boxes of a tile's or a block's rows and 64 columns
  AttentionShape shape = {};
  Tiles<kDims> tiles;
  QueryTileOrder order = {};
  BFloat* out = nullptr;
  float* lse = nullptr;
  int* next_item = nullptr;
  KeepTable<2> keep = {};  // of what drops; rows are groups of queries, columns blocks of keys
};

constexpr int kStages = 2;

template <int kDims>
struct Memory {
  static constexpr int kHalves = kDims / kTileColumns;
  using Keys = std::uint8_t[kHalves][kBlockKeys * kTileRowBytes];
  using Queries = std::uint8_t[kHalves][kTileQueries<kDims> * kTileRowBytes];

  alignas(1024) Queries q[2];
  Keys k[kStages], v[kStages];
  SharedBarrier q_full[2], q_empty[2];
  SharedBarrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  HandedItems items;

  // By one thread, before any other comes.
  __device__ void init() {
    constexpr unsigned kWarps = kQueryGroups<kDims> * kGroupWarps;
    items.init(kWarps);
    for (int i = 0; i < 2; ++i) q_full[i].init(1), q_empty[i].init(kWarps);
    for (int i = 0; i < kStages; ++i) {
      k_full[i].init(1), k_empty[i].init(kWarps), v_full[i].init(1), v_empty[i].init(kWarps);
    }
    show_shared_to_engines();
  }
};

// By one thread.
template <int kDims>
class Feed {
 public:
  __device__ Feed(const Call<kDims>& call, Memory<kDims>& memory) : call_(call), s_(memory) {}

  __device__ void run() {
    for (Ring<2> items;; ++items.uses) {
      const int number = atomicAdd(call_.next_item, 1), at = items.at();
      s_.items.hand(items, number);
      if (number >= call_.order.items()) return;
      const QueryTile item = call_.order.item(number);
      const AttentionShape& shape = call_.shape;
      const int h = item.head % shape.heads, key_head = shape.heads + h / shape.group();
      batch_ = item.head / shape.heads;
      s_.q_empty[at].wait(items.parity() ^ 1);
      // Rows before the first come as zeros.
      bring(call_.queries, s_.q[at], h, call_.tiles.first_row(item.tile, 0), s_.q_full[at]);
      const int blocks = call_.tiles.key_blocks(item.tile, kQueryGroups<kDims> - 1);
      bring_keys(key_head, blocks - 1);
      for (int block = blocks - 1; block >= 0; --block) {
        if (block > 0) bring_keys(key_head, block - 1);
        bring_values(key_head + shape.kv_heads, block);
      }
    }
  }

 private:
  __device__ void bring_keys(int head, int block) {
    s_.k_empty[keys_.at()].wait(keys_.parity() ^ 1);
    bring(call_.keys, s_.k[keys_.at()], head, block * kBlockKeys, s_.k_full[keys_.at()]);
    ++keys_.uses;
  }
  __device__ void bring_values(int head, int block) {
    s_.v_empty[values_.at()].wait(values_.parity() ^ 1);
    bring(call_.keys, s_.v[values_.at()], head, block * kBlockKeys, s_.v_full[values_.at()]);
    ++values_.uses;
  }
  template <class Tile>
  __device__ void bring(const CUtensorMap& map, Tile& to, int head, int row, SharedBarrier& full) const {
    full.arrive_and_expect(sizeof to);
    copy_rows(to, map, batch_, head, row, full);
  }

  const Call<kDims>& call_;
  Memory<kDims>& s_;
  Ring<kStages> keys_, values_;
  int batch_ = 0;
};

// Groups take turns: each waits for the one before it.
__device__ inline void wait_for_turn(int group) {
  wait_at_barrier<2 * kGroupThreads>(1 + group);
}
__device__ inline void give_turn(int group) {
  arrive_at_barrier<2 * kGroupThreads>(1 + group);
}

template <int kDims, bool kDrop>
class QueryGroup {
 public:
  __device__ QueryGroup(const Call<kDims>& call, Memory<kDims>& memory, int group)
      : call_(call),
        s_(memory),
        group_(group),
        warp_(static_cast<int>(threadIdx.x) / 32 % kGroupWarps),
        lane_(static_cast<int>(threadIdx.x) % 32),
        scale_(call.shape.scale * kLog2E) {}

  __device__ void run() {
    if (group_ == kGroups - 1) give_turn(0);
    for (Ring<2> items;; ++items.uses) {
      const int number = s_.items.take(items);
      if (number >= call_.order.items()) return;
      s_.q_full[items.at()].wait(items.parity());
      run_item(call_.order.item(number), items.at());
    }
  }

 private:
  static constexpr int kGroups = kQueryGroups<kDims>;
  static constexpr int kKeyHalfBytes = kBlockKeys * kTileRowBytes;
  static constexpr int kQueryHalfBytes = kTileQueries<kDims> * kTileRowBytes;
  using Scores = float[kBlockKeys / 2];
  using Weights = std::uint32_t[kBlockKeys / 16][4];
  using Sums = float[kDims / 2];

  __device__ void run_item(const QueryTile& item, int q) {
    const int blocks = call_.tiles.key_blocks(item.tile, group_);
    // All groups take as many turns: one less than there are blocks.
    for (int skip = call_.tiles.key_blocks(item.tile, kGroups - 1) - max(blocks, 1); skip > 0; --skip) {
      skip_block();
      wait_for_turn(group_);
      give_turn((group_ + 1) % kGroups);
    }
    if (blocks == 0) {
      skip_block();
      return arrive_as_warp(s_.q_empty[q]);
    }
    const int first = call_.tiles.first_row(item.tile, group_);
    float largest[2] = {-INFINITY, -INFINITY}, sums[2] = {0, 0}, factors[2];
    Scores scores;
    Weights probs;
    Sums out;
    s_.k_full[keys_.at()].wait(keys_.parity());
    begin_scores(q, scores);
    [[maybe_unused]] KeepWords<2> keep;
    if constexpr (kDrop) keep = kept_of(item, blocks - 1);
    wait_for_products<0>();
    hold(scores);
    arrive_as_warp(s_.k_empty[keys_.at()]);
    ++keys_.uses;
    mask(first, (blocks - 1) * kBlockKeys, scores);
    scores_to_probs(scores, largest, sums, factors);
    if constexpr (kDrop) drop(keep, scores);
    round_to_weights(scores, probs);
    for (int block = blocks - 2; block >= 0; --block) {
      s_.k_full[keys_.at()].wait(keys_.parity());
      wait_for_turn(group_);
      begin_scores(q, scores);
      s_.v_full[values_.at()].wait(values_.parity());
      begin_out(probs, block != blocks - 2, out);
      give_turn((group_ + 1) % kGroups);
      if constexpr (kDrop) keep = kept_of(item, block);
      wait_for_products<1>();
      hold(scores);
      arrive_as_warp(s_.k_empty[keys_.at()]);
      ++keys_.uses;
      scores_to_probs(scores, largest, sums, factors);
      if constexpr (kDrop) drop(keep, scores);
      wait_for_products<0>();
      hold(out);
      arrive_as_warp(s_.v_empty[values_.at()]);
      ++values_.uses;
      multiply_rows(factors, out);
      round_to_weights(scores, probs);
    }
    arrive_as_warp(s_.q_empty[q]);
    s_.v_full[values_.at()].wait(values_.parity());
    begin_out(probs, blocks > 1, out);
    wait_for_products<0>();
    hold(out);
    arrive_as_warp(s_.v_empty[values_.at()]);
    ++values_.uses;
    store(item, first, largest, sums, out);
  }

  __device__ const KeepWords<2>& kept_of(const QueryTile& item, int block) const {
    return call_.keep.of(item.head, item.tile * kGroups + group_, block);
  }

  // One that other groups see.
  __device__ void skip_block() {
    s_.k_full[keys_.at()].wait(keys_.parity());
    arrive_as_warp(s_.k_empty[keys_.at()]);
    s_.v_full[values_.at()].wait(values_.parity());
    arrive_as_warp(s_.v_empty[values_.at()]);
    ++keys_.uses, ++values_.uses;
  }

  // scores[64 queries, keys] = own rows of queries times keys
  __device__ void begin_scores(int q, Scores& scores) const {
    const std::uint64_t a = tile_descriptor(shared_address_of(s_.q[q]) +
                                            static_cast<unsigned>(group_ * kGroupRows * kTileRowBytes)),
                        b = tile_descriptor(shared_address_of(s_.k[keys_.at()]));
    begin_rows_by_rows<kDims>(a, kQueryHalfBytes, b, kKeyHalfBytes, scores);
  }
  // out[64 queries, dims] (+)= probs[64 queries, keys] values
  __device__ void begin_out(const Weights& probs, bool add, Sums& out) const {
    const std::uint64_t b = tile_descriptor(shared_address_of(s_.v[values_.at()]), kKeyHalfBytes);
    begin_weighted_sum(probs, b, add, out);
  }

  // Keys behind a query, by where the group's rows and the block's keys begin.
  __device__ void mask(int first_query, int first_key, Scores& scores) const {
    const int query = first_query + warp_ * 16 + lane_ / 4, key = first_key + lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < kBlockKeys / 2; ++i) {
      if (key + i / 4 * 8 + i % 2 > query + i / 2 % 2 * 8) scores[i] = -INFINITY;
    }
  }
  // Of this thread's two rows: the largest score so far, e^(score - largest) and its sums, which are of this
  // thread's columns alone, and the factors that earlier sums have to be multiplied by, as the largest may
  // have grown.
  __device__ void scores_to_probs(Scores& scores, float (&largest)[2], float (&sums)[2],
                                  float (&factors)[2]) const {
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      float most = scores[2 * below];
#pragma unroll
      for (int i = 0; i < kBlockKeys / 2; ++i) {
        if (i / 2 % 2 == below) most = fmaxf(most, scores[i]);
      }
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
      most = fmaxf(most, largest[below]);
      factors[below] = exp2_approx((largest[below] - most) * scale_);
      largest[below] = most;
      const float shift = most * scale_;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kBlockKeys / 2; ++i) {
        if (i / 2 % 2 != below) continue;
        scores[i] = exp2_approx(scores[i] * scale_ - shift);
        sum += scores[i];
      }
      sums[below] = sums[below] * factors[below] + sum;
    }
  }
  __device__ static void multiply_rows(const float (&factors)[2], Sums& out) {
#pragma unroll
    for (int i = 0; i < kDims / 2; ++i) out[i] *= factors[i / 2 % 2];
  }

  __device__ void store(const QueryTile& item, int first, const float (&largest)[2], float (&sums)[2],
                        Sums& out) {
    const AttentionShape& shape = call_.shape;
    const int b = item.head / shape.heads, h = item.head % shape.heads;
    float factors[2];
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      float& sum = sums[below];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      factors[below] = (kDrop ? static_cast<float>(shape.dropout.factor) : 1) / sum;
      const int row = first + warp_ * 16 + lane_ / 4 + 8 * below;
      if (lane_ % 4 == 0 && row < shape.seq) {
        row_numbers(call_.lse, shape, b, h)[row] = largest[below] * shape.scale + logf(sum);
      }
    }
    multiply_rows(factors, out);
    store_rows(out, 1.0f, out_head(call_.out, shape, b, h), shape.out_width(), first, shape.seq);
  }

  const Call<kDims>& call_;
  Memory<kDims>& s_;
  const int group_, warp_, lane_;
  const float scale_;
  Ring<kStages> keys_, values_;
};

// A launch gets as many registers for each thread, which the groups share otherwise. A group that asks for
// more than the others leave waits for ever.
template <int kDims>
struct Threads {
  static constexpr int kGroups = 1 + kQueryGroups<kDims>, kNum = kGroups * kGroupThreads;
  static constexpr int kFeedRegisters = kDims == 64 ? 32 : 40, kGroupRegisters = kDims == 64 ? 160 : 232;
  static_assert(kFeedRegisters + kQueryGroups<kDims> * kGroupRegisters <= kGroups * (65536 / kNum / 8 * 8));
};

template <int kDims, bool kDrop>
__global__ void __launch_bounds__(Threads<kDims>::kNum, 1)
    attend_causally(const __grid_constant__ Call<kDims> call) {
  static_assert(sizeof(Memory<kDims>) <= 227 * 1024, "all that a thread block can have");
  extern __shared__ __align__(1024) std::uint8_t memory[];
  auto& s = *reinterpret_cast<Memory<kDims>*>(memory);
  if (threadIdx.x == 0) s.init();
  __syncthreads();
  // Through a shuffle, so that the compiler knows it to be the same for all lanes.
  const int group = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
  if (group == 0) {
    give_up_registers<Threads<kDims>::kFeedRegisters>();
    if (threadIdx.x == 0) Feed<kDims>(call, s).run();
  } else {
    take_registers<Threads<kDims>::kGroupRegisters>();
    QueryGroup<kDims, kDrop>(call, s, group - 1).run();
  }
}

constexpr std::int64_t kCounterBytes = 256;

template <int kDims>
KeepTable<2> keep_table(const AttentionShape& shape) {
  const Tiles<kDims> tiles{shape.seq};
  return {.rows = tiles.count * kQueryGroups<kDims>, .columns = (shape.seq + kBlockKeys - 1) / kBlockKeys};
}

template <int kDims>
std::int64_t scratch_bytes(const AttentionShape& shape) {
  return kCounterBytes + (shape.dropout.drops() ? align_up(keep_table<kDims>(shape).bytes(shape)) : 0);
}

template <int kDims, bool kDrop>
void run(Context& context, const AttentionShape& shape, const AttentionOperands& operands,
         std::byte* scratch) {
  auto* const next_item = reinterpret_cast<int*>(scratch);
  const auto rows = [&](int box_rows) {
    return tile_map(operands.qkv, {.width = shape.qkv_width(), .rows = shape.seq, .matrices = shape.batch},
                    box_rows);
  };
  const Tiles<kDims> tiles{shape.seq};
  Call<kDims> call{.queries = rows(kTileQueries<kDims>),
                   .keys = rows(kBlockKeys),
                   .shape = shape,
                   .tiles = tiles,
                   .order = {.heads = shape.batch * shape.heads,
                             .tiles = tiles.count,
                             .bytes_of_head = std::int64_t{shape.seq} * kDims * 4},
                   .out = static_cast<BFloat*>(operands.out),
                   .lse = operands.lse,
                   .next_item = next_item};
  if constexpr (kDrop) {
    call.keep = keep_table<kDims>(shape);
    call.keep.words = reinterpret_cast<KeepWords<2>*>(scratch + kCounterBytes);
    make_keep_of_queries(context, shape, tiles.missing_rows, call.keep);
  }
  check_cuda(cudaMemsetAsync(next_item, 0, sizeof *next_item, context.stream), "begin attention");
  const auto blocks = std::min(static_cast<unsigned>(call.order.items()), num_multiprocessors());
  allow_shared_bytes(attend_causally<kDims, kDrop>, sizeof(Memory<kDims>));
  attend_causally<kDims, kDrop>
      <<<blocks, Threads<kDims>::kNum, sizeof(Memory<kDims>), context.stream>>>(call);
  check_cuda(cudaGetLastError(), "run attention");
}

}  // namespace

std::int64_t causal_attention_bytes(const AttentionShape& shape) {
  return shape.head_dim == 64 ? scratch_bytes<64>(shape) : scratch_bytes<128>(shape);
}

void causal_attention(Context& context, const AttentionShape& shape, const AttentionOperands& operands,
                      std::span<std::byte> scratch) {
  TS_ASSERT(static_cast<std::int64_t>(scratch.size()) >= causal_attention_bytes(shape));
  for_dropout(shape, [&]<class Drop>(Drop) {
    shape.head_dim == 64 ? run<64, Drop::value>(context, shape, operands, scratch.data())
                         : run<128, Drop::value>(context, shape, operands, scratch.data());
  });
}

}  // namespace tessera::cuda
