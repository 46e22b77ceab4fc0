// The gradient: with P = softmax(scale Q K^T), factors M of dropout and D = rowsum(dO * O)
//   dV = (P * M)^T dO,   dS = P * (M * dO V^T - D),   dK = scale dS^T Q,   dQ = scale dS K.
// A warp owns 16 keys and walks over the queries, 32 at a time. Scores are computed transposed, so that P^T
// and dS^T are A operands as they stand; dS^T also goes to shared memory, from where the warps then take it
// by queries.
#include "tessera/backend/cuda/attention_keep.cuh"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/whole_head_rows.cuh"

namespace tessera::cuda {
namespace {

constexpr int kQueries = 32;

using Scores = float[kQueries / 8][4];  // C tiles of 16 keys and 32 queries
using Sums = float[kWholeHeadDims / 8][4];

template <bool kDrop>
struct Tiles {
  HeadRows query, keys, values, dout;
  SharedRows<kWholeHeadTokens, kWholeHeadTokens> dscores;  // of keys, by queries
  float lse[kWholeHeadTokens], delta[kWholeHeadTokens];    // of queries; lse times log2(e)
  KeepTile<kDrop, kWholeHeadTokens, kWholeHeadTokens> keep;
};

struct GradPointers {
  const BFloat *dout, *qkv, *out;
  const float* lse;
  BFloat* dqkv;
};

// What a thread adds up to delta: half a row of the output, zero behind the last token, with the row's lse.
// On its way while the copies are.
struct HalfRow {
  static constexpr int kDims = kWholeHeadDims / 2;
  int row, first;
  uint4 packs[kDims / 8] = {};
  float lse = 0;

  __device__ HalfRow(const AttentionShape& shape, const BFloat* out, const float* lse_of_rows)
      : row(static_cast<int>(threadIdx.x) / 2), first(static_cast<int>(threadIdx.x) % 2 * kDims) {
    static_assert(kWholeHeadThreads == 2 * kWholeHeadTokens);
    if (row >= shape.seq) return;
    const auto* const from = reinterpret_cast<const uint4*>(out + row * shape.out_width() + first);
#pragma unroll
    for (int i = 0; i < kDims / 8; ++i) packs[i] = from[i];
    lse = lse_of_rows[row];
  }
};

// lse and delta of all queries. dout has arrived.
template <bool kDrop>
__device__ void set_row_numbers(const HalfRow& half, Tiles<kDrop>& s) {
  float sum = 0;
#pragma unroll
  for (int p = 0; p < HalfRow::kDims / 8; ++p) {
    const auto out = __builtin_bit_cast(Pack<BFloat, 8>, half.packs[p]);
    float dout[8];
    load<8>(&s.dout.rows[half.row][half.first + 8 * p], dout);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += widen(out.elems[i]) * dout[i];
  }
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  if (half.first > 0) return;
  s.delta[half.row] = sum;
  s.lse[half.row] = kLog2E * half.lse;
}

// Both products of the warp's keys with queries from q0 on: scores = K Q^T, dprobs = V dO^T.
template <bool kDrop>
__device__ void make_scores(const Tiles<kDrop>& s, int key, int q0, Scores& scores, Scores& dprobs) {
#pragma unroll
  for (int k = 0; k < kWholeHeadDims / 16; ++k) {
    Fragment keys, values;
    load_a(s.keys, key, 16 * k, keys);
    load_a(s.values, key, 16 * k, values);
    add_product_with_rows(keys, s.query, q0, 16 * k, scores);
    add_product_with_rows(values, s.dout, q0, 16 * k, dprobs);
  }
}

// Scores to P * M, and dprobs to dS. Queries behind the last token have no scores, outputs and gradients but
// zeros: what they give is zero.
template <bool kDrop>
__device__ void differentiate(const AttentionShape& shape, int num_keys, const Tiles<kDrop>& s, int first_key,
                              int q0, Scores& probs, Scores& dscores) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  const float scale_log2 = shape.scale * kLog2E;
  [[maybe_unused]] const auto kept = static_cast<float>(shape.dropout.factor);
#pragma unroll
  for (int n = 0; n < kQueries / 8; ++n) {
    const int first = q0 + 8 * n + 2 * t;
    const auto lse = *reinterpret_cast<const float2*>(&s.lse[first]);
    const auto delta = *reinterpret_cast<const float2*>(&s.delta[first]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int q = first + i % 2, key = first_key + g + i / 2 * 8;
      const bool seen = key < num_keys && (!shape.causal || key <= q);
      const float shift = i % 2 ? lse.y : lse.x, mean = i % 2 ? delta.y : delta.x;
      const float prob = seen ? exp2_approx(probs[n][i] * scale_log2 - shift) : 0.0f;
      const float factor = s.keep.factor(q, key, kept);
      probs[n][i] = kDrop ? prob * factor : prob;
      dscores[n][i] = prob * ((kDrop ? factor * dscores[n][i] : dscores[n][i]) - mean);
    }
  }
}

// A[16, 16] whose rows are the columns [column, column + 16), and whose columns the rows [row, row + 16).
__device__ void load_a_of_columns(const SharedRows<kWholeHeadTokens, kWholeHeadTokens>& from, int row,
                                  int column, Fragment& to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_matrices_transposed(&from.rows[row + lane / 16 * 8 + lane % 8][column + lane / 8 % 2 * 8], to);
}

template <bool kDrop>
__global__ void __launch_bounds__(kWholeHeadThreads, 2)
    whole_head_grads(AttentionShape shape, GradPointers p) {
  extern __shared__ __align__(16) char shared[];
  auto& s = *reinterpret_cast<Tiles<kDrop>*>(shared);
  const int h = static_cast<int>(blockIdx.x), b = static_cast<int>(blockIdx.y);
  const std::int64_t width = shape.qkv_width();
  begin_copy(out_head(p.dout, shape, b, h), shape.out_width(), shape.seq, s.dout);
  begin_copy(query_head(p.qkv, shape, b, h), width, shape.seq, s.query);
  begin_copy(key_head(p.qkv, shape, b, h), width, shape.seq, s.keys);
  begin_copy(value_head(p.qkv, shape, b, h), width, shape.seq, s.values);
  end_copy_group();
  const HalfRow half(shape, out_head(p.out, shape, b, h), row_numbers(p.lse, shape, b, h));
  s.keep.fill(shape, b, h, 0, 0);
  wait_for_copies<0>();
  __syncthreads();
  set_row_numbers(half, s);
  __syncthreads();

  const int own = static_cast<int>(threadIdx.x) / 32 * kTokensPerWarp, num_keys = shape.num_keys(b);
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  Sums dkeys = {}, dvalues = {};
  for (int q0 = 0; q0 < shape.seq; q0 += kQueries) {
    Scores probs = {}, dscores = {};
    make_scores(s, own, q0, probs, dscores);
    differentiate(shape, num_keys, s, own, q0, probs, dscores);
#pragma unroll
    for (int k = 0; k < kQueries / 16; ++k) {
      Fragment a;
      as_a(probs[2 * k], probs[2 * k + 1], a);
      add_product(a, s.dout, q0 + 16 * k, dvalues);
      as_a(dscores[2 * k], dscores[2 * k + 1], a);
      add_product(a, s.query, q0 + 16 * k, dkeys);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        *reinterpret_cast<std::uint32_t*>(
            &s.dscores.rows[own + g + i % 2 * 8][q0 + 16 * k + i / 2 * 8 + 2 * t]) = a[i];
      }
    }
  }
  const float ones[2] = {1.0f, 1.0f}, scales[2] = {shape.scale, shape.scale};
  // No other warp reads its values.
  store_own_rows(dvalues, ones, shape.seq, s.values, value_head(p.dqkv, shape, b, h), width);
  store_own_rows(dkeys, scales, shape.seq, s.values, key_head(p.dqkv, shape, b, h), width);
  __syncthreads();
  if (own >= shape.seq) return;
  Sums dquery = {};
#pragma unroll
  for (int k = 0; k < kWholeHeadTokens / 16; ++k) {
    Fragment a;
    load_a_of_columns(s.dscores, 16 * k, own, a);
    add_product(a, s.keys, 16 * k, dquery);
  }
  store_own_rows(dquery, scales, shape.seq, s.query, query_head(p.dqkv, shape, b, h), width);
}

}  // namespace

void whole_head_attention_grad(Context& context, const AttentionShape& shape,
                               const AttentionGradOperands& o) {
  const GradPointers pointers{static_cast<const BFloat*>(o.dout), static_cast<const BFloat*>(o.qkv),
                              static_cast<const BFloat*>(o.out), o.lse, static_cast<BFloat*>(o.dqkv)};
  for_dropout(shape, [&]<class Drop>(Drop) {
    constexpr auto kKernel = whole_head_grads<Drop::value>;
    constexpr std::size_t kBytes = sizeof(Tiles<Drop::value>);
    allow_shared_bytes(kKernel, kBytes);
    const dim3 grid(static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.batch));
    kKernel<<<grid, kWholeHeadThreads, kBytes, context.stream>>>(shape, pointers);
  });
}

}  // namespace tessera::cuda
