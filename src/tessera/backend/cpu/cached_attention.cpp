// cached_attention. A task is a key head: its tokens' keys and values are appended to the caches, then its
// queries attend, four at a time. Sums run in an order fixed by the shapes: the bits are the same for any
// number of threads.
#include "tessera/ops/cached_attention.h"

#include <algorithm>
#include <limits>

#include "tessera/backend/cpu/gemm_pack.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/kernel_workspace.h"
#include "tessera/backend/cpu/vector_math.h"
#include "tessera/backend/cpu/workspace.h"

namespace tessera::cpu {
namespace {

constexpr std::int64_t kQueries = 4;  // that share what is read of the caches

// C[kRows, n] = A[kRows, k] B[k, n], C in registers while k runs.
template <int kRows, class T, class S>
void multiply_rows(std::int64_t k, std::int64_t n, const T* a, std::int64_t lda, const S* b, std::int64_t ldb,
                   T* c, std::int64_t ldc) {
  using V = typename Simd<T>::Vector;
  constexpr int kVectors = kRows == 1 ? 4 : 2, kWidth = kVectors * kLanes<T>;
  static_assert(kCacheMultiple % kWidth == 0);
  std::int64_t j = 0;
  for (; j + kWidth <= n; j += kWidth) {
    V sums[kRows][kVectors] = {};
    for (std::int64_t i = 0; i < k; ++i) {
      V row[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) load_converted<kLanes<T>>(row[v], b + i * ldb + j + v * kLanes<T>);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] += a[r * lda + i] * row[v];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) store(c + r * ldc + j + v * kLanes<T>, sums[r][v]);
    }
  }
  for (; j < n; ++j) {
    for (int r = 0; r < kRows; ++r) {
      T sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += a[r * lda + i] * widened<T>(b[i * ldb + j]);
      c[r * ldc + j] = sum;
    }
  }
}

struct CacheShape {
  std::int64_t tokens, positions, columns;
  HeadLayout heads;

  explicit CacheShape(const Shape& qkv, const Shape& keys, const HeadLayout& layout)
      : tokens(qkv[1]), positions(keys[3]), columns(qkv[2]), heads(layout) {}
  std::int64_t group() const { return heads.heads / heads.kv_heads; }
};

// Of a thread.
template <class T>
struct Scratch {
  T* query;   // [kQueries, head_dim], times the scale
  T* scores;  // [kQueries, positions], then exponentials
  T* sums;    // [kQueries, head_dim]

  Scratch(Carver& carver, const CacheShape& shape)
      : query(carver.take<T>(kQueries * shape.heads.head_dim)),
        scores(carver.take<T>(kQueries * shape.positions)),
        sums(carver.take<T>(kQueries * shape.heads.head_dim)) {}
};

// One key head of one sequence.
template <class S>
struct KeyHead {
  using T = Compute<S>;

  const CacheShape& shape;
  std::int64_t first, kv;  // position of the first token; which key head
  T scale;
  const S* qkv;      // [tokens, columns]
  S *keys, *values;  // [head_dim, positions], [positions, head_dim]
  S* out;            // [tokens, heads head_dim]

  void append() const {
    const HeadLayout& heads = shape.heads;
    const std::int64_t count = std::min(shape.tokens, shape.positions - first);
    for (std::int64_t t = 0; t < count; ++t) {
      const S* key = qkv + t * shape.columns + (heads.heads + kv) * heads.head_dim;
      const S* value = key + heads.kv_heads * heads.head_dim;
      for (std::int64_t d = 0; d < heads.head_dim; ++d) keys[d * shape.positions + first + t] = key[d];
      std::copy_n(value, heads.head_dim, values + (first + t) * heads.head_dim);
    }
  }

  // Queries are numbered token by token, the heads of the group within.
  void attend(const Scratch<T>& s) const {
    const std::int64_t count = shape.tokens * shape.group();
    std::int64_t query = 0;
    for (; query + kQueries <= count; query += kQueries) attend_rows<kQueries>(query, s);
    for (; query < count; ++query) attend_rows<1>(query, s);
  }

  template <int kRows>
  void attend_rows(std::int64_t query, const Scratch<T>& s) const {
    const std::int64_t hd = shape.heads.head_dim, p = shape.positions;
    std::int64_t visible[kRows], most = 0;
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t token = (query + r) / shape.group();
      const S* from = qkv + token * shape.columns + head_of(query + r) * hd;
      for (std::int64_t d = 0; d < hd; ++d) s.query[r * hd + d] = scale * widened<T>(from[d]);
      visible[r] = std::min(p, first + token + 1);
      most = std::max(most, visible[r]);
    }
    // Whole vectors: what lies behind the visible keys is anything, and is not read again.
    const std::int64_t columns = round_up(most, kCacheMultiple);
    multiply_rows<kRows>(hd, columns, s.query, hd, keys, p, s.scores, p);
    T inverse[kRows];
    for (int r = 0; r < kRows; ++r) inverse[r] = exponentiate(s.scores + r * p, visible[r], most);
    multiply_rows<kRows>(most, hd, s.scores, p, values, hd, s.sums, hd);
    for (int r = 0; r < kRows; ++r) {
      S* to = out + (query + r) / shape.group() * shape.heads.out_columns() + head_of(query + r) * hd;
      for (std::int64_t d = 0; d < hd; ++d) to[d] = S(inverse[r] * s.sums[r * hd + d]);
    }
  }

  std::int64_t head_of(std::int64_t query) const { return kv * shape.group() + query % shape.group(); }

  // Exponentials of the visible scores, zero up to `most`; returns one over their sum.
  static T exponentiate(T* scores, std::int64_t visible, std::int64_t most) {
    T max = -std::numeric_limits<T>::infinity(), total = 0;
#pragma omp simd reduction(max : max)
    for (std::int64_t k = 0; k < visible; ++k) max = scores[k] > max ? scores[k] : max;
#pragma omp simd reduction(+ : total)
    for (std::int64_t k = 0; k < visible; ++k) {
      scores[k] = exp(scores[k] - max);
      total += scores[k];
    }
    std::fill(scores + visible, scores + most, T{0});
    return 1 / total;
  }
};

}  // namespace

void cached_attention(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<AttentionAttrs>();
  const CacheShape shape(call.inputs[0].shape, call.inputs[1].shape, attrs.heads);
  const std::int64_t first = call.inputs[3].as<std::int32_t>()[0];
  TS_ASSERT(first >= 0 && first < shape.positions);
  for_dtype(call.inputs[0].dtype, [&]<class S>(S) {
    using T = Compute<S>;
    const S* qkv = call.inputs[0].as<S>().data();
    S *keys = call.outputs[1].as<S>().data(), *values = call.outputs[2].as<S>().data();
    S* out = call.outputs[0].as<S>().data();
    const HeadLayout& heads = shape.heads;
    const auto per_thread = static_cast<std::size_t>(carved_bytes<Scratch<T>>(shape));
    const std::int64_t cached = heads.head_dim * shape.positions;
    context.pool.for_each_task(call.inputs[0].shape[0] * heads.kv_heads, [&](std::int64_t task, int worker) {
      Carver carver(call.workspace.subspan(static_cast<std::size_t>(worker) * per_thread));
      const Scratch<T> scratch(carver, shape);
      const std::int64_t b = task / heads.kv_heads;
      const KeyHead<S> head{.shape = shape,
                            .first = first,
                            .kv = task % heads.kv_heads,
                            .scale = static_cast<T>(attrs.scale),
                            .qkv = qkv + b * shape.tokens * shape.columns,
                            .keys = keys + task * cached,
                            .values = values + task * cached,
                            .out = out + b * shape.tokens * heads.out_columns()};
      head.append();
      head.attend(scratch);
    });
  });
}

std::int64_t cached_attention_workspace_bytes(const Graph& graph, const Node& node, int num_threads) {
  const ValueType& qkv = graph.type(node.inputs[0]);
  const CacheShape shape(qkv.shape, graph.type(node.inputs[1]).shape, node.attrs.as<AttentionAttrs>().heads);
  return num_threads * (qkv.dtype == DType::f64 ? carved_bytes<Scratch<double>>(shape)
                                                : carved_bytes<Scratch<float>>(shape));
}

}  // namespace tessera::cpu
