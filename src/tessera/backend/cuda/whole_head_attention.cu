// The forward half: a warp has the scores of its 16 queries and all keys in registers.
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/reduce.cuh"
#include "tessera/backend/cuda/score_tiles.cuh"
#include "tessera/backend/cuda/whole_head_rows.cuh"

namespace tessera::cuda {
namespace {

using Scores = float[kWholeHeadTokens / 8][4];  // C tiles of 16 queries and all keys

template <bool kDrop>
struct Tiles {
  HeadRows query, keys, values;
  KeepTile<kDrop, kWholeHeadTokens, kWholeHeadTokens> keep;
};

// Scores to exp(scale (score - largest)), of both of a lane's rows.
__device__ void exponentiate(float scale_log2, Scores& scores, float (&largest)[2], float (&totals)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most = -CUDART_INF_F;
#pragma unroll
    for (int n = 0; n < kWholeHeadTokens / 8; ++n)
      most = fmaxf(most, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    largest[half] = reduce_lanes<4>(most, Max{});
    const float shift = largest[half] * scale_log2;
    float total = 0;
#pragma unroll
    for (int n = 0; n < kWholeHeadTokens / 8; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = exp2_approx(scores[n][i] * scale_log2 - shift);
        total += scores[n][i];
      }
    }
    totals[half] = reduce_lanes<4>(total, Sum{});
  }
}

template <bool kDrop>
__global__ void __launch_bounds__(kWholeHeadThreads, 2)
    whole_head_outputs(AttentionShape shape, const BFloat* qkv, BFloat* out, float* lse) {
  extern __shared__ __align__(16) char shared[];
  auto& s = *reinterpret_cast<Tiles<kDrop>*>(shared);
  const int h = static_cast<int>(blockIdx.x), b = static_cast<int>(blockIdx.y);
  begin_copy(query_head(qkv, shape, b, h), shape.qkv_width(), shape.seq, s.query);
  begin_copy(key_head(qkv, shape, b, h), shape.qkv_width(), shape.seq, s.keys);
  end_copy_group();
  begin_copy(value_head(qkv, shape, b, h), shape.qkv_width(), shape.seq, s.values);
  end_copy_group();
  s.keep.fill(shape, b, h, 0, 0);
  wait_for_copies<1>();
  __syncthreads();

  const int own = static_cast<int>(threadIdx.x) / 32 * kTokensPerWarp;
  Scores scores = {};
#pragma unroll
  for (int k = 0; k < kWholeHeadDims / 16; ++k) {
    Fragment a;
    load_a(s.query, own, 16 * k, a);
    add_product_with_rows(a, s.keys, 0, 16 * k, scores);
  }
  const int num_keys = shape.num_keys(b);
  if (shape.causal || num_keys < kWholeHeadTokens) hide_unseen(shape.causal, num_keys, own, 0, scores);
  float largest[2], totals[2];
  exponentiate(shape.scale * kLog2E, scores, largest, totals);
  if constexpr (kDrop) drop(s.keep, own, scores);

  wait_for_copies<0>();
  __syncthreads();
  if (own >= shape.seq) return;
  float sums[kWholeHeadDims / 8][4] = {};
#pragma unroll
  for (int k = 0; k < kWholeHeadTokens / 16; ++k) {
    Fragment probs;
    as_a(scores[2 * k], scores[2 * k + 1], probs);
    add_product(probs, s.values, 16 * k, sums);
  }
  const float kept = kDrop ? static_cast<float>(shape.dropout.factor) : 1.0f;
  const float factors[2] = {kept / totals[0], kept / totals[1]};
  // No other warp reads its queries.
  store_own_rows(sums, factors, shape.seq, s.query, out_head(out, shape, b, h), shape.out_width());
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = own + g + 8 * half;
    if (t == 0 && row < shape.seq) {
      row_numbers(lse, shape, b, h)[row] = largest[half] * shape.scale + logf(totals[half]);
    }
  }
}

}  // namespace

void whole_head_attention(Context& context, const AttentionShape& shape, const AttentionOperands& o) {
  for_dropout(shape, [&]<class Drop>(Drop) {
    constexpr auto kKernel = whole_head_outputs<Drop::value>;
    constexpr std::size_t kBytes = sizeof(Tiles<Drop::value>);
    allow_shared_bytes(kKernel, kBytes);
    const dim3 grid(static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.batch));
    kKernel<<<grid, kWholeHeadThreads, kBytes, context.stream>>>(shape, static_cast<const BFloat*>(o.qkv),
                                                                 static_cast<BFloat*>(o.out), o.lse);
  });
}

}  // namespace tessera::cuda
