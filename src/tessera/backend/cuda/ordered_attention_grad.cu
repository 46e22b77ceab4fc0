// With P = softmax(scale Q K^T), O = P V and D = rowsum(dO * O):
//   dV = P^T dO,   dS = P * (dO V^T - D),   dK = scale dS^T Q,   dQ = scale dS K,
// and with dropout, whose factors M are zero or that of what is kept, as is known before (keep_words.cuh),
//   dV = (P * M)^T dO,   dS = P * (M * dO V^T - D).
// A thread block walks with 128 keys over tiles of queries. Two groups of four warps compute, each for 64 of
// the keys, with scores transposed, so that P^T and dS^T are A operands as they stand and dK, dV stay in
// registers; dS goes through shared memory for dQ, to which both groups' keys add. A third group feeds them.
// In the order they are begun, a tile's products are
//   S, dP | dV, dQ of the tile before, dK:
// dP runs while the group computes exponentials, dK while it hands over dQ, and the other group's all the
// time. (dV before dS is computed would be a little earlier; the registers do not hold P both as it is and
// rounded.)
#include "tessera/backend/cuda/attention_keep.cuh"
#include "tessera/backend/cuda/attention_rows.cuh"
#include "tessera/backend/cuda/instructions.cuh"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/ordered_attention_ends.cuh"
#include "tessera/backend/cuda/ordered_attention_feed.cuh"
#include "tessera/backend/cuda/ordered_attention_grad.h"
#include "tessera/backend/cuda/tile_map.h"
#include "tessera/backend/cuda/turned_rows.cuh"

namespace tessera::cuda {
namespace {

template <int kDims, bool kDrop>
class GradGroup {
 public:
  __device__ GradGroup(const GradCall<kDims>& call, GradMemory<kDims>& memory, int group)
      : call_(call),
        s_(memory),
        group_(group),
        thread_(static_cast<int>(threadIdx.x) % kGroupThreads),
        warp_(thread_ / 32),
        lane_(thread_ % 32) {}

  __device__ void run_pass(const Pass& pass) {
    s_.k_full.wait(passes_.parity());
    s_.v_full.wait(passes_.parity());
    ++passes_.uses;
    Sums dk, dv;  // like all that products write to, not read before: the first one stores
    run_tile<true>(pass, 0, dk, dv);
    for (int step = 1; step < pass.num_tiles; ++step) run_tile<false>(pass, step, dk, dv);
    float dq[4 * kQuerySumPacks];
    begin_query_grads(dq);
    wait_for_products<0>();
    arrive_as_warp(s_.keys_empty);
    hold(dq);
    hold(dk);
    hold(dv);
    store(pass, dk, dv);
    hand_over(dq);  // last: the one before it has been taken by now
  }

 private:
  static constexpr int kQueries = kTileQueries<kDims>;
  static constexpr int kKeyHalfBytes = kBlockKeys * kTileRowBytes, kQueryHalfBytes = kQueries * kTileRowBytes;
  static constexpr int kOwnRowsBytes = kGroupRows * kTileRowBytes;  // from one group's keys to the other's
  using Scores = float[kQueries / 2];
  using Weights = std::uint32_t[kQueries / 16][4];
  using Sums = float[kDims / 2];
  using Keep = KeepWords<kQueries / kGroupRows>;

  // One tile, and dQ of the one before it.
  template <bool kFirst>
  __device__ void run_tile(const Pass& pass, int step, Sums& dk, Sums& dv) {
    const Ring<kStages> use{tiles_};
    const int stage = use.at();
    const std::uint32_t q = shared_address_of(s_.q[stage]), dout = shared_address_of(s_.dout[stage]);
    Scores scores, dprobs;
    s_.q_full[stage].wait(use.parity());
    begin_keys_by_queries(shared_address_of(s_.k), q, scores);
    s_.dout_full[stage].wait(use.parity());
    begin_keys_by_queries(shared_address_of(s_.v), dout, dprobs);
    [[maybe_unused]] Keep keep;
    if constexpr (kDrop) keep = call_.keep.of(pass.head, pass.block * kGroups + group_, pass.tile(step));
    wait_for_products<1>();
    hold(scores);
    Weights probs, dscores;
    scores_to_probs(pass.tile(step), pass.block, s_.lse[stage], scores);
    wait_for_products<0>();
    hold(dprobs);
    if constexpr (kDrop) drop_dprobs(keep, dprobs);
    dprobs_to_dscores(s_.delta[stage], scores, dprobs);
    round_to_weights(dprobs, dscores);
    share_dscores(dscores);
    if constexpr (kDrop) drop(keep, scores);
    round_to_weights(scores, probs);
    begin_weighted_sum(probs, tile_descriptor(dout, kQueryHalfBytes), !kFirst, dv);
    float dq[4 * kQuerySumPacks];
    if constexpr (!kFirst) begin_query_grads(dq);
    begin_weighted_sum(dscores, tile_descriptor(q, kQueryHalfBytes), !kFirst, dk);
    wait_for_products<1>();
    // Only now: whoever sees this arrival knows that the dscores before these have been read here, too.
    arrive_as_warp(s_.dscores_full[Ring<kDScoreBuffers>{tiles_}.at()]);
    s_.dout_empty[stage].arrive();
    if constexpr (!kFirst) {
      hold(dq);
      hand_over(dq);
    }
    wait_for_products<0>();  // with dK left running the compiler does not find the registers
    s_.q_empty[stage].arrive();
    ++tiles_;
  }

  // c[64 keys, queries] = own rows of keys times rows of queries
  __device__ void begin_keys_by_queries(std::uint32_t keys, std::uint32_t queries, Scores& c) const {
    const std::uint64_t a = tile_descriptor(keys + static_cast<std::uint32_t>(group_ * kOwnRowsBytes)),
                        b = tile_descriptor(queries);
    begin_rows_by_rows<kDims>(a, kKeyHalfBytes, b, kQueryHalfBytes, c);
  }
  // dq[64, 64] = the group's part of dscores K, of tile tiles_ - 1. Its buffer is written again for tile
  // tiles_ + 2: by then both groups have announced tile tiles_, which they do after they have read this one.
  // Hence three buffers.
  __device__ void begin_query_grads(float (&dq)[4 * kQuerySumPacks]) {
    const Ring<kDScoreBuffers> shared{tiles_ - 1};
    s_.dscores_full[shared.at()].wait(shared.parity());
    const int rows = kByColumns<kDims> ? 0 : group_ * kOwnRowsBytes,
              columns = kByColumns<kDims> ? group_ * kKeyHalfBytes : 0;
    const std::uint64_t a = tile_descriptor(shared_address_of(s_.dscores[shared.at()]) +
                                            static_cast<unsigned>(rows)),
                        b = tile_descriptor(shared_address_of(s_.k) + static_cast<unsigned>(columns));
    begin_products();
#pragma unroll
    for (int k = 0; k < kBlockKeys / 16; ++k) {
      multiply_tiles<BRows::kAlongN>(behind(a, k / 4 * kQueryHalfBytes + k % 4 * kSixteenColumns),
                                     behind(b, k * kSixteenRows), k > 0, dq);
    }
    end_product_group();
  }

  __device__ void scores_to_probs(int tile, int block, const float* lse, Scores& scores) const {
    const float scale = call_.shape.scale * kLog2E;
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j) {
      const float2 of = *reinterpret_cast<const float2*>(lse + 8 * j + lane_ % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& x = scores[4 * j + i];
        x = exp2_approx(x * scale - (i % 2 == 0 ? of.x : of.y));
      }
    }
    if (tile * kQueries >= (block + 1) * kBlockKeys - 1) return;  // every query sees all keys
    const int key = block * kBlockKeys + group_ * kGroupRows + warp_ * 16 + lane_ / 4,
              query = tile * kQueries + lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < kQueries / 2; ++i) {
      if (key + i / 2 % 2 * 8 > query + i / 4 * 8 + i % 2) scores[i] = 0;
    }
  }
  __device__ void drop_dprobs(const Keep& keep, Scores& dprobs) const {
    const auto factor = static_cast<float>(call_.shape.dropout.factor);
    drop(keep, dprobs);
#pragma unroll
    for (float& x : dprobs) x *= factor;
  }
  __device__ void dprobs_to_dscores(const float* delta, const Scores& probs, Scores& dprobs) const {
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j) {
      const float2 of = *reinterpret_cast<const float2*>(delta + 8 * j + lane_ % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& x = dprobs[4 * j + i];
        x = probs[4 * j + i] * (x - (i % 2 == 0 ? of.x : of.y));
      }
    }
  }
  // To shared memory, transposed: a row per query.
  __device__ void share_dscores(const Weights& dscores) {
    const int matrix = lane_ / 8, row = lane_ % 8;
    const std::uint32_t at =
        shared_address_of(s_.dscores[Ring<kDScoreBuffers>{tiles_}.at()][group_]) +
        static_cast<unsigned>((matrix / 2 * 8 + row) * kTileRowBytes + ((2 * warp_ + matrix % 2) ^ row) * 16);
#pragma unroll
    for (int k = 0; k < kQueries / 16; ++k) store_transposed(at + k * kSixteenRows, dscores[k]);
    show_shared_to_engines();
  }
  // To the warp that adds it up.
  __device__ void hand_over(const float (&dq)[4 * kQuerySumPacks]) {
    s_.dq_empty[group_].wait(Ring<1>{tiles_ - 1}.parity() ^ 1);
#pragma unroll
    for (int i = 0; i < kQuerySumPacks; ++i) {
      s_.dq[group_][i][thread_] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    }
    show_shared_to_engines();
    arrive_as_warp(s_.dq_full[group_]);
  }

  __device__ void store(const Pass& pass, Sums& dk, const Sums& dv) const {
    const AttentionShape& shape = call_.shape;
    if (call_.key_sums != nullptr) {
      const std::int64_t part =
          ((std::int64_t{pass.head} * call_.order.blocks() + pass.block) * kGroups + group_) * 2;
#pragma unroll
      for (int i = 0; i < kDims / 8; ++i) {
        call_.key_sums[part][i][thread_] =
            make_float4(dk[4 * i], dk[4 * i + 1], dk[4 * i + 2], dk[4 * i + 3]);
        call_.key_sums[part + 1][i][thread_] =
            make_float4(dv[4 * i], dv[4 * i + 1], dv[4 * i + 2], dv[4 * i + 3]);
      }
      return;
    }
    const int b = pass.head / shape.heads, h = pass.head % shape.heads,
              first = pass.block * kBlockKeys + group_ * kGroupRows;
    if (call_.turns_of_rows != nullptr) turn_rows_back<kDims>(dk, call_.turns_of_rows, first, shape.seq);
    store_rows(dk, shape.scale, key_head(call_.dqkv, shape, b, h), shape.qkv_width(), first, shape.seq);
    store_rows(dv, kDrop ? static_cast<float>(shape.dropout.factor) : 1.0f,
               value_head(call_.dqkv, shape, b, h), shape.qkv_width(), first, shape.seq);
  }

  const GradCall<kDims>& call_;
  GradMemory<kDims>& s_;
  const int group_, thread_, warp_, lane_;
  Ring<1> passes_;
  int tiles_ = 0;  // of all passes
};

inline constexpr int kGradThreads = (1 + kGroups) * kGroupThreads;

// A launch of that many threads gets 168 registers for each, which the groups share otherwise. A group that
// asks for more than the others leave waits for ever.
inline constexpr int kFeedRegisters = 40, kGroupRegisters = 232;
static_assert(kFeedRegisters + kGroups * kGroupRegisters <= (1 + kGroups) * 168);

template <int kDims, bool kDrop>
__global__ void __launch_bounds__(kGradThreads, 1)
    ordered_grads(const __grid_constant__ GradCall<kDims> call) {
  static_assert(sizeof(GradMemory<kDims>) <= 227 * 1024, "all that a thread block can have");
  extern __shared__ __align__(1024) std::uint8_t memory[];
  auto& s = *reinterpret_cast<GradMemory<kDims>*>(memory);
  if (threadIdx.x == 0) s.init();
  __syncthreads();
  // Through a shuffle, so that the compiler knows them to be the same for all lanes.
  const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0), group = warp / kGroupWarps;
  if (group == 0) {
    give_up_registers<kFeedRegisters>();
    if (threadIdx.x == 0) TileFeed<kDims>(call, s).run();
    if (warp >= 1 && warp <= kGroups) add_query_sums(call, s, warp - 1);
  } else {
    take_registers<kGroupRegisters>();
    GradGroup<kDims, kDrop> worker(call, s, group - 1);
    for_each_pass(call, s, [&](const Pass& pass) { worker.run_pass(pass); });
  }
}

template <int kDims, bool kDrop>
void run(Context& context, const AttentionShape& shape, const AttentionGradOperands& operands,
         std::byte* scratch) {
  GradCall<kDims> call = placed<kDims>(shape, scratch);
  call.dqkv = static_cast<BFloat*>(operands.dqkv);
  call.turns_of_rows = operands.turns;
  const auto rows = [&](const void* data, std::int64_t width, int box_rows) {
    return tile_map(data, {.width = width, .rows = shape.seq, .matrices = shape.batch}, box_rows);
  };
  call.queries = rows(operands.qkv, shape.qkv_width(), kTileQueries<kDims>);
  call.keys = rows(operands.qkv, shape.qkv_width(), kBlockKeys);
  call.dout = rows(operands.dout, shape.out_width(), kTileQueries<kDims>);
  make_row_numbers(context, call, operands);
  if constexpr (kDrop) make_keep_of_keys<kTileQueries<kDims>>(context, shape, call.keep);
  const auto blocks = std::min(static_cast<unsigned>(call.order.items()), num_multiprocessors());
  allow_shared_bytes(ordered_grads<kDims, kDrop>, sizeof(GradMemory<kDims>));
  ordered_grads<kDims, kDrop><<<blocks, kGradThreads, sizeof(GradMemory<kDims>), context.stream>>>(call);
  check_cuda(cudaGetLastError(), "run attention's gradient");
  round_sums(context, call);
}

}  // namespace

std::int64_t ordered_attention_grad_bytes(const AttentionShape& shape) {
  return shape.head_dim == 64 ? scratch_bytes<64>(shape) : scratch_bytes<128>(shape);
}

void ordered_attention_grad(Context& context, const AttentionShape& shape,
                            const AttentionGradOperands& operands, std::span<std::byte> scratch) {
  TS_ASSERT(static_cast<std::int64_t>(scratch.size()) >= ordered_attention_grad_bytes(shape));
  for_dropout(shape, [&]<class Drop>(Drop) {
    shape.head_dim == 64 ? run<64, Drop::value>(context, shape, operands, scratch.data())
                         : run<128, Drop::value>(context, shape, operands, scratch.data());
  });
}

}  // namespace tessera::cuda
