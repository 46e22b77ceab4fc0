// Attention without tensor cores, in fp32: tiles of 32 queries and 32 keys in shared memory. 256 threads: for
// scores a 16 x 16 square of threads, 2 x 2 scores each; for products with V, dO, Q or K a row per 8 threads,
// each with every eighth column.
#include <math_constants.h>

#include "tessera/backend/cuda/attention_keep.cuh"
#include "tessera/backend/cuda/attention_rows.cuh"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/reduce.cuh"

namespace tessera::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kLanesOfRow = kThreads / kTile;  // 8

// Rows of a head as floats, zero behind the last row and the last column. One column more than needed: rows
// then begin in different banks.
template <int kDims>
using Tile = float[kTile][kDims + 1];
using ScoreTile = float[kTile][kTile + 1];

template <int kDims, class T>
__device__ void load_tile(const T* head, std::int64_t row_stride, int first, const AttentionShape& shape,
                          float scale, Tile<kDims>& to) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDims; i += kThreads) {
    const int row = i / kDims, column = i % kDims;
    const bool inside = first + row < shape.seq && column < shape.head_dim;
    to[row][column] = inside ? scale * widen(head[(first + row) * row_stride + column]) : 0.0f;
  }
}

// f(row, column, dot product of those rows of a and b) for the thread's four scores.
template <int kDims, class F>
__device__ void for_each_dot(const Tile<kDims>& a, const Tile<kDims>& b, F&& f) {
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
  float dot[2][2] = {};
  for (int d = 0; d < kDims; ++d) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) dot[i][j] += a[y + 16 * i][d] * b[x + 16 * j][d];
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) f(y + 16 * i, x + 16 * j, dot[i][j]);
  }
}

// Of a sequence of which `num_keys` keys are seen.
__device__ bool sees(const AttentionShape& shape, int num_keys, int query, int key) {
  return key < num_keys && query < shape.seq && (!shape.causal || key <= query);
}

// Tiles of keys that the queries of a tile see.
__device__ int end_of_keys(const AttentionShape& shape, int num_keys, int first_query) {
  return shape.causal ? min(num_keys, first_query + kTile) : num_keys;
}

template <int kDims, bool kDrop>
struct ForwardTiles {
  Tile<kDims> query, keys, values;
  ScoreTile scores;
  KeepTile<kDrop, kTile, kTile> keep;
};

template <int kDims, bool kDrop, class T>
__global__ void __launch_bounds__(kThreads)
    plain_attention_tiles(AttentionShape shape, const T* qkv, T* out, float* lse) {
  extern __shared__ __align__(16) char shared[];
  auto& s = *reinterpret_cast<ForwardTiles<kDims, kDrop>*>(shared);
  const int q0 = static_cast<int>(blockIdx.x) * kTile, h = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z), kv = h / shape.group();
  const int row = static_cast<int>(threadIdx.x) / kLanesOfRow,
            lane = static_cast<int>(threadIdx.x) % kLanesOfRow;
  load_tile<kDims>(query_head(qkv, shape, b, h), shape.qkv_width(), q0, shape, shape.scale, s.query);
  float sums[kDims / kLanesOfRow] = {}, max = -CUDART_INF_F, total = 0;
  const int num_keys = shape.num_keys(b);
  for (int k0 = 0; k0 < end_of_keys(shape, num_keys, q0); k0 += kTile) {
    __syncthreads();
    load_tile<kDims>(key_head(qkv, shape, b, kv), shape.qkv_width(), k0, shape, 1.0f, s.keys);
    load_tile<kDims>(value_head(qkv, shape, b, kv), shape.qkv_width(), k0, shape, 1.0f, s.values);
    s.keep.fill(shape, b, h, q0, k0);
    __syncthreads();
    for_each_dot<kDims>(s.query, s.keys, [&](int q, int k, float score) {
      s.scores[q][k] = sees(shape, num_keys, q0 + q, k0 + k) ? score : -CUDART_INF_F;
    });
    __syncthreads();
    float tile_max = max;
    for (int k = lane; k < kTile; k += kLanesOfRow) tile_max = fmaxf(tile_max, s.scores[row][k]);
    tile_max = reduce_lanes<kLanesOfRow>(tile_max, Max{});
    // Rows behind the last query see nothing at all.
    const float shift = tile_max == -CUDART_INF_F ? 0.0f : tile_max, correction = expf(max - shift);
    float tile_total = 0;
    for (int k = lane; k < kTile; k += kLanesOfRow) {
      const float p = expf(s.scores[row][k] - shift);
      s.scores[row][k] = kDrop ? p * s.keep.factor(row, k, 1.0f) : p;
      tile_total += p;  // what is dropped counts in the softmax
    }
    total = total * correction + reduce_lanes<kLanesOfRow>(tile_total, Sum{});
    max = tile_max;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kDims / kLanesOfRow; ++i) sums[i] *= correction;
    for (int k = 0; k < kTile; ++k) {
      const float p = s.scores[row][k];
#pragma unroll
      for (int i = 0; i < kDims / kLanesOfRow; ++i) sums[i] += p * s.values[k][lane + kLanesOfRow * i];
    }
  }
  if (q0 + row >= shape.seq) return;
  T* const to = out_head(out, shape, b, h) + (q0 + row) * shape.out_width();
  const float divisor = kDrop ? total / static_cast<float>(shape.dropout.factor) : total;
#pragma unroll
  for (int i = 0; i < kDims / kLanesOfRow; ++i) {
    const int column = lane + kLanesOfRow * i;
    if (column < shape.head_dim) to[column] = narrow<T>(sums[i] / divisor);
  }
  if (lane == 0) row_numbers(lse, shape, b, h)[q0 + row] = max + logf(total);
}

// A warp per query: delta = sum of dout * out.
template <class T>
__global__ void deltas(AttentionShape shape, const T* dout, const T* out, float* delta) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (at >= std::int64_t{shape.batch} * shape.heads * shape.seq) return;
  const int query = static_cast<int>(at % shape.seq), h = static_cast<int>(at / shape.seq % shape.heads);
  const int b = static_cast<int>(at / shape.seq / shape.heads);
  const T* const x = out_head(dout, shape, b, h) + query * shape.out_width();
  const T* const y = out_head(out, shape, b, h) + query * shape.out_width();
  float sum = 0;
  for (int i = lane; i < shape.head_dim; i += kWarp) sum += widen(x[i]) * widen(y[i]);
  sum = reduce_lanes(sum, Sum{});
  if (lane == 0) delta[at] = sum;
}

template <int kDims, bool kDrop>
struct BackwardTiles {
  Tile<kDims> query, dout, keys, values;  // queries times the scale
  ScoreTile probs, dscores;
  KeepTile<kDrop, kTile, kTile> keep;
};

// P, as it multiplied V, and dS of the tile's queries and keys, into shared memory.
template <int kDims, bool kDrop>
__device__ void make_score_grads(const AttentionShape& shape, int num_keys, int q0, int k0, const float* lse,
                                 const float* delta, BackwardTiles<kDims, kDrop>& s) {
  for_each_dot<kDims>(s.query, s.keys, [&](int q, int k, float score) {
    s.probs[q][k] = sees(shape, num_keys, q0 + q, k0 + k) ? expf(score - lse[q0 + q]) : 0.0f;
  });
  for_each_dot<kDims>(s.dout, s.values, [&](int q, int k, float dprob) {
    const float p = s.probs[q][k];  // the thread's own
    const float factor = s.keep.factor(q, k, static_cast<float>(shape.dropout.factor));
    s.dscores[q][k] = p == 0.0f ? 0.0f : p * (factor * dprob - delta[q0 + q]);
    if constexpr (kDrop) s.probs[q][k] = p * factor;
  });
}

template <int kDims, bool kDrop, class T>
__device__ void load_queries(const AttentionShape& shape, int b, int h, int q0, const T* qkv, const T* dout,
                             BackwardTiles<kDims, kDrop>& s) {
  load_tile<kDims>(query_head(qkv, shape, b, h), shape.qkv_width(), q0, shape, shape.scale, s.query);
  load_tile<kDims>(out_head(dout, shape, b, h), shape.out_width(), q0, shape, 1.0f, s.dout);
}
template <int kDims, bool kDrop, class T>
__device__ void load_keys(const AttentionShape& shape, int b, int kv, int k0, const T* qkv,
                          BackwardTiles<kDims, kDrop>& s) {
  load_tile<kDims>(key_head(qkv, shape, b, kv), shape.qkv_width(), k0, shape, 1.0f, s.keys);
  load_tile<kDims>(value_head(qkv, shape, b, kv), shape.qkv_width(), k0, shape, 1.0f, s.values);
}

// dK and dV of a tile of keys, over all query heads that read it.
template <int kDims, bool kDrop, class T>
__global__ void __launch_bounds__(kThreads) plain_key_grads(AttentionShape shape, const T* dout, const T* qkv,
                                                            const float* lse, const float* delta, T* dqkv) {
  extern __shared__ __align__(16) char shared[];
  auto& s = *reinterpret_cast<BackwardTiles<kDims, kDrop>*>(shared);
  const int k0 = static_cast<int>(blockIdx.x) * kTile, kv = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z);
  const int row = static_cast<int>(threadIdx.x) / kLanesOfRow,
            lane = static_cast<int>(threadIdx.x) % kLanesOfRow;
  load_keys(shape, b, kv, k0, qkv, s);
  float dkeys[kDims / kLanesOfRow] = {}, dvalues[kDims / kLanesOfRow] = {};
  for (int h = kv * shape.group(); h < (kv + 1) * shape.group(); ++h) {
    for (int q0 = shape.causal ? k0 : 0; q0 < shape.seq; q0 += kTile) {
      __syncthreads();
      load_queries(shape, b, h, q0, qkv, dout, s);
      s.keep.fill(shape, b, h, q0, k0);
      __syncthreads();
      make_score_grads(shape, shape.num_keys(b), q0, k0, row_numbers(lse, shape, b, h),
                       row_numbers(delta, shape, b, h), s);
      __syncthreads();
      for (int q = 0; q < kTile; ++q) {
        const float p = s.probs[q][row], ds = s.dscores[q][row];
#pragma unroll
        for (int i = 0; i < kDims / kLanesOfRow; ++i) {
          dvalues[i] += p * s.dout[q][lane + kLanesOfRow * i];
          dkeys[i] += ds * s.query[q][lane + kLanesOfRow * i];
        }
      }
    }
  }
  if (k0 + row >= shape.seq) return;
  T* const to_keys = key_head(dqkv, shape, b, kv) + (k0 + row) * shape.qkv_width();
  T* const to_values = value_head(dqkv, shape, b, kv) + (k0 + row) * shape.qkv_width();
#pragma unroll
  for (int i = 0; i < kDims / kLanesOfRow; ++i) {
    const int column = lane + kLanesOfRow * i;
    if (column >= shape.head_dim) break;
    to_keys[column] = narrow<T>(dkeys[i]);
    to_values[column] = narrow<T>(dvalues[i]);
  }
}

// dQ of a tile of queries.
template <int kDims, bool kDrop, class T>
__global__ void __launch_bounds__(kThreads)
    plain_query_grads(AttentionShape shape, const T* dout, const T* qkv, const float* lse, const float* delta,
                      T* dqkv) {
  extern __shared__ __align__(16) char shared[];
  auto& s = *reinterpret_cast<BackwardTiles<kDims, kDrop>*>(shared);
  const int q0 = static_cast<int>(blockIdx.x) * kTile, h = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z);
  const int row = static_cast<int>(threadIdx.x) / kLanesOfRow,
            lane = static_cast<int>(threadIdx.x) % kLanesOfRow;
  load_queries(shape, b, h, q0, qkv, dout, s);
  float dquery[kDims / kLanesOfRow] = {};
  const int num_keys = shape.num_keys(b);
  for (int k0 = 0; k0 < end_of_keys(shape, num_keys, q0); k0 += kTile) {
    __syncthreads();
    load_keys(shape, b, h / shape.group(), k0, qkv, s);
    s.keep.fill(shape, b, h, q0, k0);
    __syncthreads();
    make_score_grads(shape, num_keys, q0, k0, row_numbers(lse, shape, b, h), row_numbers(delta, shape, b, h),
                     s);
    __syncthreads();
    for (int k = 0; k < kTile; ++k) {
      const float ds = s.dscores[row][k];
#pragma unroll
      for (int i = 0; i < kDims / kLanesOfRow; ++i) dquery[i] += ds * s.keys[k][lane + kLanesOfRow * i];
    }
  }
  if (q0 + row >= shape.seq) return;
  T* const to = query_head(dqkv, shape, b, h) + (q0 + row) * shape.qkv_width();
#pragma unroll
  for (int i = 0; i < kDims / kLanesOfRow; ++i) {
    const int column = lane + kLanesOfRow * i;
    if (column < shape.head_dim) to[column] = narrow<T>(shape.scale * dquery[i]);
  }
}

// Calls f with the columns of the smallest tile that holds a head, and with whether something is dropped.
template <class F>
void for_head_dim(const AttentionShape& shape, F&& f) {
  for_dropout(shape, [&]<class Drop>(Drop drop) {
    if (shape.head_dim <= 64) return f(std::integral_constant<int, 64>{}, drop);
    if (shape.head_dim <= 128) return f(std::integral_constant<int, 128>{}, drop);
    TS_ASSERT(shape.head_dim <= kPlainHeadDim);
    f(std::integral_constant<int, kPlainHeadDim>{}, drop);
  });
}

dim3 grid_of(const AttentionShape& shape, int heads) {
  return {num_blocks(shape.seq, kTile), static_cast<unsigned>(heads), static_cast<unsigned>(shape.batch)};
}

}  // namespace

void plain_attention(Context& context, const AttentionShape& shape, DType dtype, const AttentionOperands& o) {
  for_dtype(dtype, [&]<class T>(T) {
    for_head_dim(shape, [&]<class Dims, class Drop>(Dims, Drop) {
      constexpr int kDims = Dims::value;
      constexpr bool kDrop = Drop::value;
      constexpr std::size_t kBytes = sizeof(ForwardTiles<kDims, kDrop>);
      allow_shared_bytes(plain_attention_tiles<kDims, kDrop, T>, kBytes);
      plain_attention_tiles<kDims, kDrop><<<grid_of(shape, shape.heads), kThreads, kBytes, context.stream>>>(
          shape, static_cast<const T*>(o.qkv), static_cast<T*>(o.out), o.lse);
    });
  });
}

void attention_delta(Context& context, const AttentionShape& shape, DType dtype,
                     const AttentionGradOperands& o) {
  const std::int64_t queries = std::int64_t{shape.batch} * shape.heads * shape.seq;
  for_dtype(dtype, [&]<class T>(T) {
    deltas<<<num_blocks(queries, kThreads / kWarp), kThreads, 0, context.stream>>>(
        shape, static_cast<const T*>(o.dout), static_cast<const T*>(o.out), o.delta);
  });
}

void plain_attention_grad(Context& context, const AttentionShape& shape, DType dtype,
                          const AttentionGradOperands& o) {
  for_dtype(dtype, [&]<class T>(T) {
    for_head_dim(shape, [&]<class Dims, class Drop>(Dims, Drop) {
      constexpr int kDims = Dims::value;
      constexpr bool kDrop = Drop::value;
      constexpr std::size_t kBytes = sizeof(BackwardTiles<kDims, kDrop>);
      const auto *dout = static_cast<const T*>(o.dout), *qkv = static_cast<const T*>(o.qkv);
      auto* const dqkv = static_cast<T*>(o.dqkv);
      allow_shared_bytes(plain_key_grads<kDims, kDrop, T>, kBytes);
      allow_shared_bytes(plain_query_grads<kDims, kDrop, T>, kBytes);
      plain_key_grads<kDims, kDrop><<<grid_of(shape, shape.kv_heads), kThreads, kBytes, context.stream>>>(
          shape, dout, qkv, o.lse, o.delta, dqkv);
      plain_query_grads<kDims, kDrop><<<grid_of(shape, shape.heads), kThreads, kBytes, context.stream>>>(
          shape, dout, qkv, o.lse, o.delta, dqkv);
    });
  });
}

}  // namespace tessera::cuda
