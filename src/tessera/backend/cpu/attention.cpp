#include "tessera/backend/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/backend/cpu/attention_block.h"
#include "tessera/backend/cpu/attention_head.h"
#include "tessera/backend/cpu/attention_keep.h"
#include "tessera/backend/cpu/vector_math.h"
#include "tessera/backend/cpu/workspace.h"
#include "tessera/base/error.h"

namespace tessera::cpu {
namespace {

// How many keys a block of queries is multiplied with at once. A row's maximum is then sought once for so
// many keys, and the output is one product over all of them; the scores, 221 KB of float, and the keys and
// values fit into the L2 cache.
constexpr std::int64_t kScoredKeys = 6 * kKeyBlock;

// Per thread: the keys and values of one head, and one block of queries at work.
template <class T>
struct Scratch {
  T* keys;    // [blocks][head_dim][kKeyBlock] in panels
  T* values;  // [blocks * kKeyBlock, padded head_dim]
  T* query;   // [kQueryBlock, padded head_dim], times the scale
  T* scores;  // [kQueryBlock, kScoredKeys], then probabilities
  T* sums;    // [kQueryBlock, padded head_dim]: the output before division
  T* max;     // [kQueryBlock]
  T* total;   // [kQueryBlock, lanes]: sums of exponentials

  Scratch(Carver& carver, const AttentionShape& shape) {
    const std::int64_t padded = padded_head_dim<T>(shape), all_keys = round_up(shape.seq, kKeyBlock);
    keys = carver.take<T>(all_keys * shape.head_dim);
    values = carver.take<T>(all_keys * padded);
    query = carver.take<T>(kQueryBlock * padded);
    scores = carver.take<T>(kQueryBlock * kScoredKeys);
    sums = carver.take<T>(kQueryBlock * padded);
    max = carver.take<T>(kQueryBlock);
    total = carver.take<T>(kQueryBlock * kLanes<T>);
  }
};

template <class S>
struct Forward {
  using T = Compute<S>;

  const AttentionShape& shape;
  std::span<const S> qkv;
  std::span<S> out;
  std::span<T> lse;

  // One task: the query blocks [first, last) of all query heads that share key/value head `kv`.
  void run_chunk(std::int64_t b, std::int64_t kv, std::int64_t first, std::int64_t last,
                 const Scratch<T>& s) const {
    const std::int64_t width = shape.qkv_width(), head_dim = shape.head_dim,
                       padded = padded_head_dim<T>(shape);
    const std::int64_t num_keys = std::min(shape.num_keys(b), shape.causal ? last * kQueryBlock : shape.seq);
    const S* rows = qkv.data() + b * shape.seq * width;
    const S* keys = rows + (shape.num_heads + kv) * head_dim;
    const S* values = keys + shape.num_kv_heads * head_dim;
    for (std::int64_t k0 = 0; k0 < num_keys; k0 += kKeyBlock) {
      const std::int64_t n = std::min(kKeyBlock, num_keys - k0);
      pack_keys(keys + k0 * width, width, n, head_dim, s.keys + k0 * head_dim);
      copy_head(values + k0 * width, width, n, kKeyBlock, head_dim, T{1}, s.values + k0 * padded);
    }
    const std::int64_t group = shape.num_heads / shape.num_kv_heads;
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      for (std::int64_t block = first; block < last; ++block) run_block(b, h, block * kQueryBlock, s);
    }
  }

  void run_block(std::int64_t b, std::int64_t h, std::int64_t q0, const Scratch<T>& s) const {
    const std::int64_t num_queries = std::min(kQueryBlock, shape.seq - q0),
                       padded = padded_head_dim<T>(shape);
    copy_head(qkv.data() + (b * shape.seq + q0) * shape.qkv_width() + h * shape.head_dim, shape.qkv_width(),
              num_queries, kQueryBlock, shape.head_dim, static_cast<T>(shape.scale), s.query);
    std::fill(s.sums, s.sums + kQueryBlock * padded, T{0});
    std::fill(s.max, s.max + kQueryBlock, -std::numeric_limits<T>::infinity());
    std::fill(s.total, s.total + kQueryBlock * kLanes<T>, T{0});
    const std::int64_t seen = std::min(shape.num_keys(b), shape.causal ? q0 + num_queries : shape.seq);
    for (std::int64_t k0 = 0; k0 < seen; k0 += kScoredKeys) {
      add_keys({b, h, q0, num_queries}, k0, shape.num_keys(b) - k0, s);
    }
    for (std::int64_t r = 0; r < num_queries; ++r) {
      S* to = out.data() + (b * shape.seq + q0 + r) * shape.out_width() + h * shape.head_dim;
      const T total = std::accumulate(s.total + r * kLanes<T>, s.total + (r + 1) * kLanes<T>, T{0});
      const T inverse = static_cast<T>(shape.dropout.factor) / total;
      for (std::int64_t i = 0; i < shape.head_dim; ++i) to[i] = S(s.sums[r * padded + i] * inverse);
      lse[static_cast<std::size_t>((b * shape.num_heads + h) * shape.seq + q0 + r)] =
          s.max[r] + std::log(total);
    }
  }

  struct Queries {
    std::int64_t sequence, head, first, count;
  };
  // The next kScoredKeys from k0 on, or the `keys_left`.
  void add_keys(const Queries& queries, std::int64_t k0, std::int64_t keys_left, const Scratch<T>& s) const {
    const std::int64_t q0 = queries.first, num_queries = queries.count;
    const std::int64_t padded = padded_head_dim<T>(shape), diagonal = q0 - k0;
    const std::int64_t num_keys = std::min(kScoredKeys, keys_left);
    const bool on_diagonal = shape.causal && diagonal < num_keys - 1;
    const std::int64_t num_seen = on_diagonal ? std::min(num_keys, diagonal + num_queries) : num_keys;
    BlockProduct<T> product;
    product.rows = num_queries;
    product.columns = round_up(num_seen, kMaxTileVectors * kLanes<T>);
    product.diagonal = diagonal;
    product.part = on_diagonal ? CausalPart::columns_up_to_row : CausalPart::all;
    product.b_in_panels = true;
    product.operands = {.k = shape.head_dim,
                        .a = s.query,
                        .a_stride = padded,
                        .b = s.keys + k0 * shape.head_dim,
                        .c = s.scores,
                        .ldc = kScoredKeys};
    multiply_block<RowsOfA::strided>(product);
    const auto visible = [&](std::int64_t r) {
      return on_diagonal ? std::min(r + diagonal + 1, keys_left) : keys_left;
    };
    for (std::int64_t r = 0; r < product.rows; ++r) raise_max(r, visible(r), padded, s);
    for (std::int64_t r = 0; r < product.rows; ++r) exponentiate(r, visible(r), s);
    // Behind the totals: what is dropped counts in the softmax.
    for (std::int64_t r = 0; r < (shape.dropout.drops() ? num_queries : 0); ++r) {
      drop(keep_bits(shape, queries.sequence, queries.head, q0 + r), k0, visible(r),
           s.scores + r * kScoredKeys);
    }
    product.columns = padded;
    product.part = on_diagonal ? CausalPart::k_up_to_row : CausalPart::all;
    product.b_in_panels = false;
    product.operands = {.k = num_seen,
                        .a = s.scores,
                        .a_stride = kScoredKeys,
                        .b = s.values + k0 * padded,
                        .ldb = padded,
                        .c = s.sums,
                        .ldc = padded,
                        .addend = s.sums,
                        .ld_addend = padded};
    multiply_block<RowsOfA::strided>(product);
  }

  // Hides the keys that query r does not see and raises its maximum to the new scores; what was summed
  // before is scaled to match.
  static void raise_max(std::int64_t r, std::int64_t num_visible, std::int64_t padded, const Scratch<T>& s) {
    T* scores = s.scores + r * kScoredKeys;
    const std::int64_t columns = columns_at_work<T>(num_visible, kScoredKeys);
    for (std::int64_t c = std::max<std::int64_t>(0, num_visible); c < columns; ++c) {
      scores[c] = -std::numeric_limits<T>::infinity();
    }
    T max = s.max[r];
#pragma omp simd reduction(max : max)
    for (std::int64_t c = 0; c < columns; ++c) max = scores[c] > max ? scores[c] : max;
    if (max == s.max[r]) return;
    const T correction = exp(s.max[r] - max);
    s.max[r] = max;
    T* total = s.total + r * kLanes<T>;
#pragma omp simd
    for (int lane = 0; lane < kLanes<T>; ++lane) total[lane] *= correction;
    T* sums = s.sums + r * padded;
#pragma omp simd
    for (std::int64_t i = 0; i < padded; ++i) sums[i] *= correction;
  }

  // Scores to exponentials, added to the query's total lane by lane: a sum across lanes here would make the
  // loop wait for it row by row.
  static void exponentiate(std::int64_t r, std::int64_t num_visible, const Scratch<T>& s) {
    T* scores = s.scores + r * kScoredKeys;
    const std::int64_t columns = columns_at_work<T>(num_visible, kScoredKeys);
    const T max = s.max[r];
    T total[kLanes<T>];
    std::copy_n(s.total + r * kLanes<T>, kLanes<T>, total);
    for (std::int64_t c = 0; c < columns; c += kLanes<T>) {
#pragma omp simd
      for (int lane = 0; lane < kLanes<T>; ++lane) {
        scores[c + lane] = bounded_exp(scores[c + lane] - max);
        total[lane] += scores[c + lane];
      }
    }
    std::copy_n(total, kLanes<T>, s.total + r * kLanes<T>);
  }

  // Zeroes what query r drops of the keys from k0 on; the factor of the others comes with the division.
  static void drop(const KeepBits& row, std::int64_t k0, std::int64_t num_visible, T* probs) {
    const std::int64_t columns = columns_at_work<T>(num_visible, kScoredKeys);
    const std::uint32_t threshold = row.threshold;
    for (std::int64_t begin = 0; begin < columns; begin += kKeyBlock, probs += kKeyBlock) {
      const std::int64_t count = std::min(kKeyBlock, columns - begin);
      std::array<std::uint16_t, kKeyBlock> bits;
      row.draw(k0 + begin, count, bits);
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) {
        probs[c] = bits[static_cast<std::size_t>(c)] >= threshold ? probs[c] : T{0};
      }
    }
  }
};

}  // namespace

std::int64_t attention_workspace_bytes(const AttentionShape& shape, DType dtype, int num_threads) {
  return num_threads *
         (dtype == DType::f64 ? carved_bytes<Scratch<double>>(shape) : carved_bytes<Scratch<float>>(shape));
}

template <class S>
void attention(ThreadPool& pool, const AttentionShape& shape, std::span<const S> qkv, std::span<S> out,
               std::span<Compute<S>> lse, std::span<std::byte> workspace) {
  using T = Compute<S>;
  TS_ASSERT(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0);
  TS_ASSERT(std::ssize(qkv) == shape.batch * shape.seq * shape.qkv_width());
  TS_ASSERT(std::ssize(out) == shape.batch * shape.seq * shape.out_width());
  TS_ASSERT(std::ssize(lse) == shape.batch * shape.seq * shape.num_heads);
  TS_ASSERT(std::ssize(workspace) >= attention_workspace_bytes(shape, dtype_of<S>, pool.num_threads()));
  const Forward<S> forward{shape, qkv, out, lse};
  const std::int64_t num_blocks = ceil_div(shape.seq, kQueryBlock);
  const std::int64_t num_chunks = attention_num_chunks(shape, num_blocks);
  const std::int64_t num_heads = shape.batch * shape.num_kv_heads;
  const auto per_thread = static_cast<std::size_t>(carved_bytes<Scratch<T>>(shape));
  pool.for_each_task(num_heads * num_chunks, [&](std::int64_t task, int worker) {
    Carver carver(workspace.subspan(static_cast<std::size_t>(worker) * per_thread));
    const Scratch<T> scratch(carver, shape);
    // The last chunk first: under the causal mask it is the longest.
    const std::int64_t chunk = num_chunks - 1 - task / num_heads, head = task % num_heads;
    forward.run_chunk(head / shape.num_kv_heads, head % shape.num_kv_heads, chunk * num_blocks / num_chunks,
                      (chunk + 1) * num_blocks / num_chunks, scratch);
  });
}

template void attention(ThreadPool&, const AttentionShape&, std::span<const float>, std::span<float>,
                        std::span<float>, std::span<std::byte>);
template void attention(ThreadPool&, const AttentionShape&, std::span<const Bf16>, std::span<Bf16>,
                        std::span<float>, std::span<std::byte>);
template void attention(ThreadPool&, const AttentionShape&, std::span<const double>, std::span<double>,
                        std::span<double>, std::span<std::byte>);

}  // namespace tessera::cpu
