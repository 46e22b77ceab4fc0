// The gradient of attention by tensor cores. With P = softmax(scale Q K^T), O = P V and D = rowsum(dO * O):
//   dV = P^T dO,   dS = P * (dO V^T - D),   dK = scale dS^T Q,   dQ = scale dS K,
// with dropout, whose factors M are zero or that of what is kept:   dV = (P * M)^T dO,   dS = P * (M * dO V^T
// - D). key_grads owns 64 keys and walks over the queries, query_grads owns 64 queries and walks over the
// keys; 16 rows per warp. Scores are computed transposed in the first, so that P^T and dS^T are A operands as
// they stand.
#include "tessera/backend/cuda/attention_keep.cuh"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/mma.cuh"

namespace tessera::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kOwned = 16 * kWarps;

// Rows that pass by at a time: fewer where the sums of wide heads fill the registers.
template <int kDims>
inline constexpr int kPassing = kDims > 64 ? 32 : 64;

template <int kDims, class Keep>
struct Tiles {
  SharedRows<kOwned, kDims> first, second;             // of the owner: K and V, or Q and dO
  SharedRows<kPassing<kDims>, kDims> third, fourth;    // passing by: Q and dO, or K and V
  float lse[kPassing<kDims>], delta[kPassing<kDims>];  // of passing queries; lse times log2(e)
  Keep keep;
};

template <int kDims>
using ScoreTiles = float[kPassing<kDims> / 8][4];
template <int kDims>
using SumTiles = float[kDims / 8][4];

// Two products of the warp's 16 owned rows with all passing rows: scores = first third^T, dprobs = second
// fourth^T.
template <int kDims, class Keep>
__device__ void make_scores(const Tiles<kDims, Keep>& s, int warp, ScoreTiles<kDims>& scores,
                            ScoreTiles<kDims>& dprobs) {
#pragma unroll
  for (int k = 0; k < kDims / 16; ++k) {
    Fragment a, other_a;
    load_a(s.first, 16 * warp, 16 * k, a);
    load_a(s.second, 16 * warp, 16 * k, other_a);
#pragma unroll
    for (int n = 0; n < kPassing<kDims> / 16; ++n) {
      Fragment b;
      load_b_of_rows(s.third, 16 * n, 16 * k, b);
      multiply(a, b[0], b[1], scores[2 * n]);
      multiply(a, b[2], b[3], scores[2 * n + 1]);
      load_b_of_rows(s.fourth, 16 * n, 16 * k, b);
      multiply(other_a, b[0], b[1], dprobs[2 * n]);
      multiply(other_a, b[2], b[3], dprobs[2 * n + 1]);
    }
  }
}

// sums[16, dims] += weights[16, passing] rows[passing, dims]
template <int kDims>
__device__ void add_weighted_rows(const ScoreTiles<kDims>& weights,
                                  const SharedRows<kPassing<kDims>, kDims>& rows, SumTiles<kDims>& sums) {
#pragma unroll
  for (int k = 0; k < kPassing<kDims> / 16; ++k) {
    Fragment a;
    as_a(weights[2 * k], weights[2 * k + 1], a);
    add_product(a, rows, 16 * k, sums);
  }
}

struct GradPointers {
  const BFloat *dout, *qkv;
  const float *lse, *delta;
  BFloat* dqkv;
};

template <bool kDrop, int kDims>
using KeyGradTiles = Tiles<kDims, KeepTile<kDrop, kPassing<kDims>, kOwned>>;

template <int kDims, bool kDrop>
__global__ void __launch_bounds__(32 * kWarps) key_grads(AttentionShape shape, GradPointers p) {
  extern __shared__ __align__(16) char shared[];
  auto& s = *reinterpret_cast<KeyGradTiles<kDrop, kDims>*>(shared);
  constexpr int kQueries = kPassing<kDims>;
  const int k0 = static_cast<int>(blockIdx.x) * kOwned, kv = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z);
  const int warp = static_cast<int>(threadIdx.x) / 32, g = static_cast<int>(threadIdx.x) % 32 / 4,
            t = static_cast<int>(threadIdx.x) % 4;
  const float scale_log2 = shape.scale * kLog2E;
  [[maybe_unused]] const auto kept = static_cast<float>(shape.dropout.factor);
  load_rows(key_head(p.qkv, shape, b, kv), shape.qkv_width(), k0, shape, s.first);
  load_rows(value_head(p.qkv, shape, b, kv), shape.qkv_width(), k0, shape, s.second);
  SumTiles<kDims> dkeys = {}, dvalues = {};
  const int num_keys = shape.num_keys(b);
  for (int h = kv * shape.group(); h < (kv + 1) * shape.group(); ++h) {
    for (int q0 = shape.causal ? k0 : 0; q0 < shape.seq; q0 += kQueries) {
      __syncthreads();
      load_rows(query_head(p.qkv, shape, b, h), shape.qkv_width(), q0, shape, s.third);
      load_rows(out_head(p.dout, shape, b, h), shape.out_width(), q0, shape, s.fourth);
      s.keep.fill(shape, b, h, q0, k0);
      for (int q = static_cast<int>(threadIdx.x); q < kQueries; q += 32 * kWarps) {
        const bool inside = q0 + q < shape.seq;
        s.lse[q] = inside ? kLog2E * row_numbers(p.lse, shape, b, h)[q0 + q] : 0.0f;
        s.delta[q] = inside ? row_numbers(p.delta, shape, b, h)[q0 + q] : 0.0f;
      }
      __syncthreads();
      ScoreTiles<kDims> probs = {}, dscores = {};
      make_scores(s, warp, probs, dscores);
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int q = 8 * n + 2 * t + i % 2, key = k0 + 16 * warp + g + i / 2 * 8;
          const bool seen = key < num_keys && q0 + q < shape.seq && (!shape.causal || key <= q0 + q);
          const float prob = seen ? exp2f(probs[n][i] * scale_log2 - s.lse[q]) : 0.0f;
          const float factor = s.keep.factor(q, key - k0, kept);
          probs[n][i] = kDrop ? prob * factor : prob;
          dscores[n][i] = prob * ((kDrop ? factor * dscores[n][i] : dscores[n][i]) - s.delta[q]);
        }
      }
      add_weighted_rows<kDims>(probs, s.fourth, dvalues);
      add_weighted_rows<kDims>(dscores, s.third, dkeys);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int key = k0 + 16 * warp + g + 8 * half;
    if (key >= shape.seq) continue;
    store_row(dkeys, half, shape.scale, shape, key_head(p.dqkv, shape, b, kv) + key * shape.qkv_width());
    store_row(dvalues, half, 1.0f, shape, value_head(p.dqkv, shape, b, kv) + key * shape.qkv_width());
  }
}

template <bool kDrop, int kDims>
using QueryGradTiles = Tiles<kDims, KeepTile<kDrop, kOwned, kPassing<kDims>>>;

template <int kDims, bool kDrop>
__global__ void __launch_bounds__(32 * kWarps) query_grads(AttentionShape shape, GradPointers p) {
  extern __shared__ __align__(16) char shared[];
  auto& s = *reinterpret_cast<QueryGradTiles<kDrop, kDims>*>(shared);
  constexpr int kKeys = kPassing<kDims>;
  const int q0 = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kOwned, h = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z), kv = h / shape.group();
  const int warp = static_cast<int>(threadIdx.x) / 32, g = static_cast<int>(threadIdx.x) % 32 / 4,
            t = static_cast<int>(threadIdx.x) % 4;
  const float scale_log2 = shape.scale * kLog2E;
  [[maybe_unused]] const auto kept = static_cast<float>(shape.dropout.factor);
  load_rows(query_head(p.qkv, shape, b, h), shape.qkv_width(), q0, shape, s.first);
  load_rows(out_head(p.dout, shape, b, h), shape.out_width(), q0, shape, s.second);
  float lse[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = q0 + 16 * warp + g + 8 * half;
    lse[half] = query < shape.seq ? kLog2E * row_numbers(p.lse, shape, b, h)[query] : 0.0f;
    delta[half] = query < shape.seq ? row_numbers(p.delta, shape, b, h)[query] : 0.0f;
  }
  SumTiles<kDims> dquery = {};
  const int num_keys = shape.num_keys(b), end_of_keys = shape.causal ? min(num_keys, q0 + kOwned) : num_keys;
  for (int k0 = 0; k0 < end_of_keys; k0 += kKeys) {
    __syncthreads();
    load_rows(key_head(p.qkv, shape, b, kv), shape.qkv_width(), k0, shape, s.third);
    load_rows(value_head(p.qkv, shape, b, kv), shape.qkv_width(), k0, shape, s.fourth);
    s.keep.fill(shape, b, h, q0, k0);
    __syncthreads();
    ScoreTiles<kDims> probs = {}, dscores = {};
    make_scores(s, warp, probs, dscores);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = k0 + 8 * n + 2 * t + i % 2, query = q0 + 16 * warp + g + i / 2 * 8;
        const bool seen = key < num_keys && (!shape.causal || key <= query);
        const float prob = seen ? exp2f(probs[n][i] * scale_log2 - lse[i / 2]) : 0.0f;
        const float factor = s.keep.factor(query - q0, key - k0, kept);
        dscores[n][i] = prob * ((kDrop ? factor * dscores[n][i] : dscores[n][i]) - delta[i / 2]);
      }
    }
    add_weighted_rows<kDims>(dscores, s.third, dquery);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = q0 + 16 * warp + g + 8 * half;
    if (query >= shape.seq) continue;
    store_row(dquery, half, shape.scale, shape, query_head(p.dqkv, shape, b, h) + query * shape.qkv_width());
  }
}

template <int kDims, bool kDrop>
void launch(Context& context, const AttentionShape& shape, const AttentionGradOperands& o) {
  constexpr std::size_t kBytes = sizeof(KeyGradTiles<kDrop, kDims>);
  static_assert(kBytes == sizeof(QueryGradTiles<kDrop, kDims>));
  const GradPointers pointers{static_cast<const BFloat*>(o.dout), static_cast<const BFloat*>(o.qkv), o.lse,
                              o.delta, static_cast<BFloat*>(o.dqkv)};
  const auto grid = [&](int heads) {
    return dim3(num_blocks(shape.seq, kOwned), static_cast<unsigned>(heads),
                static_cast<unsigned>(shape.batch));
  };
  allow_shared_bytes(key_grads<kDims, kDrop>, kBytes);
  allow_shared_bytes(query_grads<kDims, kDrop>, kBytes);
  key_grads<kDims, kDrop><<<grid(shape.kv_heads), 32 * kWarps, kBytes, context.stream>>>(shape, pointers);
  query_grads<kDims, kDrop><<<grid(shape.heads), 32 * kWarps, kBytes, context.stream>>>(shape, pointers);
}

}  // namespace

void tensor_core_attention_grad(Context& context, const AttentionShape& shape,
                                const AttentionGradOperands& operands) {
  for_dropout(shape, [&]<class Drop>(Drop) {
    if (shape.head_dim <= 32) return launch<32, Drop::value>(context, shape, operands);
    if (shape.head_dim <= 64) return launch<64, Drop::value>(context, shape, operands);
    launch<kTensorCoreHeadDim, Drop::value>(context, shape, operands);
  });
}

}  // namespace tessera::cuda
