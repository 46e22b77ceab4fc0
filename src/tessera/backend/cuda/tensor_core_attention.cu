// Attention by tensor cores: a block has 64 queries of one head, 16 per warp, whose scores, probabilities and
// sums stay in registers; tiles of 64 keys and values pass through shared memory.
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/mma.cuh"
#include "tessera/backend/cuda/reduce.cuh"
#include "tessera/backend/cuda/score_tiles.cuh"

namespace tessera::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kQueries = 16 * kWarps;
constexpr int kKeys = 64;

template <int kDims, bool kDrop>
struct Tiles {
  SharedRows<kQueries, kDims> query;
  SharedRows<kKeys, kDims> keys, values;
  KeepTile<kDrop, kQueries, kKeys> keep;
};

// What a thread knows of its two rows, g and g + 8.
struct Rows {
  float max[2];
  float total[2];  // of the thread's own columns
};

// Scores to probabilities under a maximum that rises; `corrections` scale what was summed before.
__device__ void exponentiate(float scale_log2, float (&scores)[kKeys / 8][4], Rows& rows,
                             float (&corrections)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float max = rows.max[half];
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) max = fmaxf(max, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    max = reduce_lanes<4>(max, Max{});
    const float shift = max == -CUDART_INF_F ? 0.0f : max * scale_log2;
    corrections[half] = exp2f(rows.max[half] * scale_log2 - shift);
    rows.max[half] = max;
    float total = 0;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = exp2f(scores[n][i] * scale_log2 - shift);
        total += scores[n][i];
      }
    }
    rows.total[half] = rows.total[half] * corrections[half] + total;
  }
}

template <int kDims, bool kDrop>
__global__ void __launch_bounds__(32 * kWarps)
    attention_tiles(AttentionShape shape, const BFloat* qkv, BFloat* out, float* lse) {
  extern __shared__ __align__(16) char shared[];
  auto& s = *reinterpret_cast<Tiles<kDims, kDrop>*>(shared);
  // The last queries first: under the causal mask they have the most keys.
  const int q0 = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries, h = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z), kv = h / shape.group();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int query = q0 + 16 * warp;
  const float scale_log2 = shape.scale * kLog2E;
  load_rows(query_head(qkv, shape, b, h), shape.qkv_width(), q0, shape, s.query);
  __syncthreads();
  Fragment a[kDims / 16];
#pragma unroll
  for (int k = 0; k < kDims / 16; ++k) load_a(s.query, 16 * warp, 16 * k, a[k]);

  float sums[kDims / 8][4] = {};
  Rows rows{{-CUDART_INF_F, -CUDART_INF_F}, {0.0f, 0.0f}};
  const int num_keys = shape.num_keys(b),
            end_of_keys = shape.causal ? min(num_keys, q0 + kQueries) : num_keys;
  for (int k0 = 0; k0 < end_of_keys; k0 += kKeys) {
    __syncthreads();
    load_rows(key_head(qkv, shape, b, kv), shape.qkv_width(), k0, shape, s.keys);
    load_rows(value_head(qkv, shape, b, kv), shape.qkv_width(), k0, shape, s.values);
    s.keep.fill(shape, b, h, q0, k0);
    __syncthreads();
    float scores[kKeys / 8][4] = {};
#pragma unroll
    for (int k = 0; k < kDims / 16; ++k) {
      add_product_with_rows(a[k], s.keys, 0, 16 * k, scores);
    }
    const bool all_seen = k0 + kKeys <= num_keys && (!shape.causal || k0 + kKeys <= query + 1);
    if (!all_seen) hide_unseen(shape.causal, num_keys, query, k0, scores);
    float corrections[2];
    exponentiate(scale_log2, scores, rows, corrections);
    if constexpr (kDrop) drop(s.keep, 16 * warp, scores);
#pragma unroll
    for (int n = 0; n < kDims / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] *= corrections[i / 2];
    }
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      Fragment probs;
      as_a(scores[2 * k], scores[2 * k + 1], probs);
      add_product(probs, s.values, 16 * k, sums);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = reduce_lanes<4>(rows.total[half], Sum{});
    const int row = query + lane / 4 + 8 * half;
    if (row >= shape.seq) continue;
    const float kept = kDrop ? static_cast<float>(shape.dropout.factor) : 1.0f;
    store_row(sums, half, kept / total, shape, out_head(out, shape, b, h) + row * shape.out_width());
    if (lane % 4 == 0) row_numbers(lse, shape, b, h)[row] = rows.max[half] * shape.scale + logf(total);
  }
}

template <int kDims, bool kDrop>
void launch(Context& context, const AttentionShape& shape, const AttentionOperands& o) {
  constexpr std::size_t kBytes = sizeof(Tiles<kDims, kDrop>);
  const dim3 grid(num_blocks(shape.seq, kQueries), static_cast<unsigned>(shape.heads),
                  static_cast<unsigned>(shape.batch));
  allow_shared_bytes(attention_tiles<kDims, kDrop>, kBytes);
  attention_tiles<kDims, kDrop><<<grid, 32 * kWarps, kBytes, context.stream>>>(
      shape, static_cast<const BFloat*>(o.qkv), static_cast<BFloat*>(o.out), o.lse);
}

}  // namespace

void tensor_core_attention(Context& context, const AttentionShape& shape, const AttentionOperands& operands) {
  for_dropout(shape, [&]<class Drop>(Drop) {
    if (shape.head_dim <= 32) return launch<32, Drop::value>(context, shape, operands);
    if (shape.head_dim <= 64) return launch<64, Drop::value>(context, shape, operands);
    launch<kTensorCoreHeadDim, Drop::value>(context, shape, operands);
  });
}

}  // namespace tessera::cuda
