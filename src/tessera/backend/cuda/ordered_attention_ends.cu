#include <cmath>
#include <utility>

#include "tessera/backend/cuda/attention_rows.cuh"
#include "tessera/backend/cuda/group_sums.cuh"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/ordered_attention_ends.cuh"
#include "tessera/backend/cuda/reduce.cuh"
#include "tessera/backend/cuda/turned_rows.cuh"
#include "tessera/base/alignment.h"

namespace tessera::cuda {
namespace {

constexpr int kRowsPerThread = 4;
template <int kDims>
constexpr int kLanesPerRow = kDims / 8;
template <int kDims>
constexpr int kRowsPerBlock = kThreads / kLanesPerRow<kDims>* kRowsPerThread;

// Blocks of a sequence are blockIdx.y's. Its rows lie head by head of a token, then of the next: where to
// read follows from a row's number, and only where to write takes a division. All of a thread's loads are
// under way before it adds anything up. lse is infinite behind the last token: probabilities are then zero.
template <int kDims>
__global__ void __launch_bounds__(kThreads)
    row_numbers_of(AttentionShape shape, GradOrder<kDims> order, const BFloat* dout, const BFloat* out,
                   const float* lse_in, float* lse, float* delta, unsigned* turns, int* next_item) {
  using Eight = Pack<BFloat, 8>;
  constexpr unsigned kLanes = kLanesPerRow<kDims>;
  const unsigned lane = threadIdx.x % kLanes, padded = static_cast<unsigned>(order.padded_seq());
  const unsigned seq = static_cast<unsigned>(shape.seq), heads = static_cast<unsigned>(shape.heads);
  const std::int64_t block = std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
#pragma unroll 1  // or the compiler divides in 64 bits, to know how often
  for (std::int64_t i = block * kThreads + threadIdx.x;
       i < std::int64_t{order.heads} * order.tiles() * kGroups;
       i += std::int64_t{gridDim.x} * gridDim.y * kThreads) {
    turns[i] = 0;
  }
  if (block == 0 && threadIdx.x == 0) *next_item = 0;
  const std::int64_t sequence = std::int64_t{blockIdx.y} * seq * shape.out_width();
  const auto row = [&](int i) {
    return blockIdx.x * kRowsPerBlock<kDims> + (i * kThreads + threadIdx.x) / kLanes;
  };
  uint4 x[kRowsPerThread] = {}, y[kRowsPerThread] = {};
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
    if (row(i) >= seq * heads) continue;
    const std::int64_t at = sequence + std::int64_t{row(i)} * kDims + lane * 8;
    x[i] = *reinterpret_cast<const uint4*>(dout + at);
    y[i] = *reinterpret_cast<const uint4*>(out + at);
  }
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
    const auto a = __builtin_bit_cast(Eight, x[i]), b = __builtin_bit_cast(Eight, y[i]);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += widen(a.elems[k]) * widen(b.elems[k]);
    sum = reduce_lanes<kLanes>(sum, Sum{});
    const unsigned token = row(i) / heads, h = row(i) % heads;
    if (lane != 0 || token >= padded) continue;
    const std::int64_t head = std::int64_t{blockIdx.y} * heads + h;
    lse[head * padded + token] = token < seq ? lse_in[head * seq + token] * kLog2E : INFINITY;
    delta[head * padded + token] = sum;
  }
}

// c (+)= sums
template <int kPacks>
__device__ void take(const GroupSums<kPacks>& sums, bool add, float (&c)[4 * kPacks]) {
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const float4 x = sums[i][threadIdx.x];
    c[4 * i] = add ? c[4 * i] + x.x : x.x;
    c[4 * i + 1] = add ? c[4 * i + 1] + x.y : x.y;
    c[4 * i + 2] = add ? c[4 * i + 2] + x.z : x.z;
    c[4 * i + 3] = add ? c[4 * i + 3] + x.w : x.w;
  }
}

// A block per 64 queries of a head: both groups' columns, or one group's rows.
template <int kDims>
__global__ void __launch_bounds__(kGroupThreads)
    round_query_sums(AttentionShape shape, GradOrder<kDims> order, const GroupSums<kQuerySumPacks>* sums,
                     BFloat* dqkv, const float* turns) {
  constexpr int kParts = kByColumns<kDims> ? kGroups : 1;
  const int rows_of_head = order.padded_seq() / kGroupRows;
  const int first = static_cast<int>(blockIdx.x) % rows_of_head * kGroupRows,
            head = static_cast<int>(blockIdx.x) / rows_of_head;
  float c[kParts][4 * kQuerySumPacks];
#pragma unroll
  for (int part = 0; part < kParts; ++part) take(sums[blockIdx.x * kParts + part], false, c[part]);
  auto& all = reinterpret_cast<float(&)[kDims / 2]>(c);
  if (turns != nullptr) turn_rows_back<kDims>(all, turns, first, shape.seq);
  BFloat* const to = query_head(dqkv, shape, head / shape.heads, head % shape.heads);
  store_rows(all, shape.scale, to, shape.qkv_width(), first, shape.seq);
}

// A block per block of keys of a head that others share, group, and dk or dv.
template <int kDims>
__global__ void __launch_bounds__(kGroupThreads)
    round_key_sums(AttentionShape shape, GradOrder<kDims> order, const GroupSums<kDims / 8>* sums,
                   BFloat* dqkv, const float* turns) {
  const int part = static_cast<int>(blockIdx.x) % (order.blocks() * kGroups * 2);
  const int kv_head = static_cast<int>(blockIdx.x) / (order.blocks() * kGroups * 2);
  const bool of_values = part % 2 != 0;
  float c[kDims / 2];
  for (int i = 0; i < shape.group(); ++i) {
    const std::int64_t head = std::int64_t{kv_head} * shape.group() + i;
    take(sums[head * order.blocks() * kGroups * 2 + part], i > 0, c);
  }
  const int first = part / 2 * kGroupRows, b = kv_head / shape.kv_heads, h = kv_head % shape.kv_heads;
  if (turns != nullptr && !of_values) turn_rows_back<kDims>(c, turns, first, shape.seq);
  BFloat* const to = of_values ? value_head(dqkv, shape, b, h) : key_head(dqkv, shape, b, h);
  store_rows(c, of_values ? 1.0f : shape.scale, to, shape.qkv_width(), first, shape.seq);
}

// Sizes of the parts of the scratch.
struct Parts {
  std::int64_t lse, query_sums, key_sums, keep, turns;
  // And next_item.
  std::int64_t total() const { return 2 * lse + query_sums + key_sums + keep + turns + align_up(4); }
};
template <int kDims>
KeepTable<kTileQueries<kDims> / kGroupRows> keep_table(const GradOrder<kDims>& order) {
  return {.rows = order.blocks() * kGroups, .columns = order.tiles()};
}
template <int kDims>
Parts parts_of(const AttentionShape& shape) {
  const GradOrder<kDims> order{shape.batch * shape.heads, shape.seq};
  const std::int64_t heads = order.heads, tiles = heads * order.tiles() * kGroups;
  return {.lse = align_up(heads * order.padded_seq() * 4),
          .query_sums = tiles * static_cast<std::int64_t>(sizeof(GroupSums<kQuerySumPacks>)),
          .key_sums = shape.group() == 1 ? 0
                                         : heads * order.blocks() * kGroups * 2 *
                                               static_cast<std::int64_t>(sizeof(GroupSums<kDims / 8>)),
          .keep = shape.dropout.drops() ? align_up(keep_table<kDims>(order).bytes(shape)) : 0,
          .turns = align_up(tiles * 4)};
}

}  // namespace

template <int kDims>
std::int64_t scratch_bytes(const AttentionShape& shape) {
  return parts_of<kDims>(shape).total();
}

template <int kDims>
GradCall<kDims> placed(const AttentionShape& shape, std::byte* scratch) {
  const Parts parts = parts_of<kDims>(shape);
  const auto take_part = [&](std::int64_t bytes) { return std::exchange(scratch, scratch + bytes); };
  GradCall<kDims> call{.shape = shape, .order = {shape.batch * shape.heads, shape.seq}};
  call.lse = reinterpret_cast<float*>(take_part(parts.lse));
  call.delta = reinterpret_cast<float*>(take_part(parts.lse));
  call.query_sums = reinterpret_cast<GroupSums<kQuerySumPacks>*>(take_part(parts.query_sums));
  std::byte* const key_sums = take_part(parts.key_sums);
  call.key_sums = parts.key_sums == 0 ? nullptr : reinterpret_cast<GroupSums<kDims / 8>*>(key_sums);
  call.keep = keep_table<kDims>(call.order);
  std::byte* const keep = take_part(parts.keep);
  call.keep.words = parts.keep == 0 ? nullptr : reinterpret_cast<decltype(call.keep.words)>(keep);
  call.turns = reinterpret_cast<unsigned*>(take_part(parts.turns));
  call.next_item = reinterpret_cast<int*>(scratch);
  return call;
}

template <int kDims>
void make_row_numbers(Context& context, const GradCall<kDims>& call, const AttentionGradOperands& operands) {
  const std::int64_t rows = std::int64_t{call.shape.heads} * call.order.padded_seq();
  const dim3 blocks(num_blocks(rows, kRowsPerBlock<kDims>), static_cast<unsigned>(call.shape.batch));
  row_numbers_of<kDims><<<blocks, kThreads, 0, context.stream>>>(
      call.shape, call.order, static_cast<const BFloat*>(operands.dout),
      static_cast<const BFloat*>(operands.out), operands.lse, call.lse, call.delta, call.turns,
      call.next_item);
  check_cuda(cudaGetLastError(), "sum attention's rows");
}

template <int kDims>
void round_sums(Context& context, const GradCall<kDims>& call) {
  const auto rows = static_cast<unsigned>(call.order.heads * (call.order.padded_seq() / kGroupRows));
  round_query_sums<kDims><<<rows, kGroupThreads, 0, context.stream>>>(call.shape, call.order, call.query_sums,
                                                                      call.dqkv, call.turns_of_rows);
  if (call.key_sums != nullptr) {
    const auto blocks =
        static_cast<unsigned>(call.shape.batch * call.shape.kv_heads * call.order.blocks() * kGroups * 2);
    round_key_sums<kDims><<<blocks, kGroupThreads, 0, context.stream>>>(call.shape, call.order, call.key_sums,
                                                                        call.dqkv, call.turns_of_rows);
  }
  check_cuda(cudaGetLastError(), "round attention's gradients");
}

#define TESSERA_ENDS(dims)                                                                             \
  template std::int64_t scratch_bytes<dims>(const AttentionShape&);                                    \
  template GradCall<dims> placed<dims>(const AttentionShape&, std::byte*);                             \
  template void make_row_numbers<dims>(Context&, const GradCall<dims>&, const AttentionGradOperands&); \
  template void round_sums<dims>(Context&, const GradCall<dims>&);
TESSERA_ENDS(64)
TESSERA_ENDS(128)
#undef TESSERA_ENDS

}  // namespace tessera::cuda
