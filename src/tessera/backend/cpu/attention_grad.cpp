#include "tessera/backend/cpu/attention_grad.h"

#include <algorithm>
#include <cmath>

#include "tessera/backend/cpu/attention_block.h"
#include "tessera/backend/cpu/attention_head.h"
#include "tessera/backend/cpu/attention_keep.h"
#include "tessera/backend/cpu/vector_math.h"
#include "tessera/backend/cpu/workspace.h"
#include "tessera/base/error.h"

// With P = softmax(scale * Q K^T), O = P V and D = rowsum(dO * O):
//   dV = P^T dO,   dS = P * (dO V^T - D),   dK = scale * dS^T Q,   dQ = scale * dS K.
// With dropout, M zero where a probability is dropped and its factor elsewhere, and O = (P * M) V:
//   dV = (P * M)^T dO,   dS = P * (M * dO V^T - D).
namespace tessera::cpu {
namespace {

std::int64_t key_blocks(const AttentionShape& shape) {
  return ceil_div(shape.seq, kKeyBlock);
}
std::int64_t key_chunks(const AttentionShape& shape) {
  return attention_num_chunks(shape, key_blocks(shape));
}
std::int64_t padded_seq(const AttentionShape& shape) {
  return round_up(shape.seq, kQueryBlock);
}

// Per thread: one chunk of keys, and the queries of one head.
template <class T>
struct Scratch {
  T* keys_panels;    // [blocks][head_dim][kKeyBlock]: K^T for the scores
  T* values_panels;  // the same of V, for dO V^T
  T* keys;           // [keys, padded head_dim]
  T* dkeys;          // sums of the chunk, over query heads and blocks
  T* dvalues;
  T* query;    // [seq, padded head_dim], times the scale
  T* dout;     // [seq, padded head_dim]
  T* delta;    // [seq]: D above
  T* lse;      // [seq]
  T* dquery;   // [seq, padded head_dim], before the scale; of a head whose keys are one chunk
  T* probs;    // [kQueryBlock, kKeyBlock]
  T* dscores;  // [kQueryBlock, kKeyBlock]

  Scratch(Carver& carver, const AttentionShape& shape) {
    const std::int64_t padded = padded_head_dim<T>(shape), seq = padded_seq(shape);
    const std::int64_t chunk_keys = ceil_div(key_blocks(shape), key_chunks(shape)) * kKeyBlock;
    keys_panels = carver.take<T>(chunk_keys * shape.head_dim);
    values_panels = carver.take<T>(chunk_keys * shape.head_dim);
    keys = carver.take<T>(chunk_keys * padded);
    dkeys = carver.take<T>(chunk_keys * padded);
    dvalues = carver.take<T>(chunk_keys * padded);
    query = carver.take<T>(seq * padded);
    dout = carver.take<T>(seq * padded);
    delta = carver.take<T>(seq);
    lse = carver.take<T>(seq);
    dquery = carver.take<T>(key_chunks(shape) == 1 ? seq * padded : 0);
    probs = carver.take<T>(kQueryBlock * kKeyBlock);
    dscores = carver.take<T>(kQueryBlock * kKeyBlock);
  }
};

// dQ is summed per chunk of keys, [batch, heads, chunks, seq, padded head_dim], and over chunks afterwards. A
// single chunk's lies in the scratch of its thread.
template <class T>
std::int64_t dquery_elems(const AttentionShape& shape) {
  const std::int64_t chunks = key_chunks(shape) == 1 ? 0 : key_chunks(shape);
  return shape.batch * shape.num_heads * chunks * padded_seq(shape) * padded_head_dim<T>(shape);
}

template <class T>
std::int64_t workspace_bytes(const AttentionShape& shape, int num_threads) {
  Carver counter;
  counter.take<T>(dquery_elems<T>(shape));
  return counter.num_bytes() + num_threads * carved_bytes<Scratch<T>>(shape);
}

template <class S>
struct Backward {
  using T = Compute<S>;

  const AttentionShape& shape;
  const AttentionGradOperands<S>& operands;
  T* dquery_sums;

  std::int64_t chunk_begin(std::int64_t chunk) const {
    return chunk * key_blocks(shape) / key_chunks(shape) * kKeyBlock;
  }
  // Queries before this see none of the chunk's keys.
  std::int64_t first_query(std::int64_t chunk) const {
    return shape.causal ? chunk_begin(chunk) / kQueryBlock * kQueryBlock : 0;
  }
  T* dquery(std::int64_t b, std::int64_t h, std::int64_t chunk) const {
    return dquery_sums + ((b * shape.num_heads + h) * key_chunks(shape) + chunk) * padded_seq(shape) *
                             padded_head_dim<T>(shape);
  }

  // One task: dK and dV of a chunk of keys, and this chunk's part of dQ.
  void run_chunk(std::int64_t b, std::int64_t kv, std::int64_t chunk, const Scratch<T>& s) const {
    const std::int64_t begin = chunk_begin(chunk), end = std::min(shape.seq, chunk_begin(chunk + 1));
    const std::int64_t padded = padded_head_dim<T>(shape), group = shape.num_heads / shape.num_kv_heads;
    copy_keys(b, kv, begin, end, s);
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      T* dq = key_chunks(shape) == 1 ? s.dquery : dquery(b, h, chunk);
      std::fill(dq + first_query(chunk) * padded, dq + padded_seq(shape) * padded, T{0});
      copy_queries(b, h, first_query(chunk), s);
      const std::int64_t seen_end = std::min(end, shape.num_keys(b));
      for (std::int64_t k0 = begin; k0 < seen_end; k0 += kKeyBlock) {
        const std::int64_t q_begin = shape.causal ? k0 / kQueryBlock * kQueryBlock : 0;
        const KeyBlock keys{k0, k0 - begin, std::min(kKeyBlock, shape.num_keys(b) - k0)};
        for (std::int64_t q0 = q_begin; q0 < shape.seq; q0 += kQueryBlock) add_block({b, h, q0}, keys, dq, s);
      }
      if (key_chunks(shape) == 1) store_dquery(b, h, 0, shape.seq, dq);
    }
    const std::int64_t width = shape.qkv_width();
    S* dkeys = operands.dqkv.data() + b * shape.seq * width + (shape.num_heads + kv) * shape.head_dim;
    S* dvalues = dkeys + shape.num_kv_heads * shape.head_dim;
    for (std::int64_t key = begin; key < end; ++key) {
      // The rows of unseen keys that share a block with seen ones hold nothing of meaning.
      const bool seen = key < shape.num_keys(b);
      fetch_head_row<FetchTo::write>(dkeys + (key + kRowsAhead) * width, shape.head_dim);
      fetch_head_row<FetchTo::write>(dvalues + (key + kRowsAhead) * width, shape.head_dim);
      for (std::int64_t i = 0; i < shape.head_dim; ++i) {
        dkeys[key * width + i] = S(seen ? s.dkeys[(key - begin) * padded + i] : T{0});
        dvalues[key * width + i] = S(seen ? s.dvalues[(key - begin) * padded + i] : T{0});
      }
    }
  }

  void copy_keys(std::int64_t b, std::int64_t kv, std::int64_t begin, std::int64_t end,
                 const Scratch<T>& s) const {
    const std::int64_t width = shape.qkv_width(), head_dim = shape.head_dim,
                       padded = padded_head_dim<T>(shape);
    const S* keys = operands.qkv.data() + b * shape.seq * width + (shape.num_heads + kv) * head_dim;
    const S* values = keys + shape.num_kv_heads * head_dim;
    for (std::int64_t k0 = begin; k0 < end; k0 += kKeyBlock) {
      const std::int64_t n = std::min(kKeyBlock, end - k0), at = k0 - begin;
      pack_keys(keys + k0 * width, width, n, head_dim, s.keys_panels + at * head_dim);
      pack_keys(values + k0 * width, width, n, head_dim, s.values_panels + at * head_dim);
      copy_head(keys + k0 * width, width, n, kKeyBlock, head_dim, T{1}, s.keys + at * padded);
    }
    const std::int64_t num_elems = round_up(end - begin, kKeyBlock) * padded;
    std::fill(s.dkeys, s.dkeys + num_elems, T{0});
    std::fill(s.dvalues, s.dvalues + num_elems, T{0});
  }

  void copy_queries(std::int64_t b, std::int64_t h, std::int64_t begin, const Scratch<T>& s) const {
    const std::int64_t width = shape.qkv_width(), out_width = shape.out_width(), head_dim = shape.head_dim;
    const std::int64_t padded = padded_head_dim<T>(shape), n = shape.seq - begin;
    const std::int64_t padded_rows = padded_seq(shape) - begin;
    copy_head(operands.qkv.data() + (b * shape.seq + begin) * width + h * head_dim, width, n, padded_rows,
              head_dim, static_cast<T>(shape.scale), s.query + begin * padded);
    const std::int64_t at = (b * shape.seq + begin) * out_width + h * head_dim;
    copy_head(operands.dout.data() + at, out_width, n, padded_rows, head_dim, T{1}, s.dout + begin * padded);
    const S* out = operands.out.data() + at;
    const T* lse = operands.lse.data() + (b * shape.num_heads + h) * shape.seq;
    for (std::int64_t q = begin; q < shape.seq; ++q) {
      T delta = 0;
      const S* row = out + (q - begin) * out_width;
      fetch_head_row<FetchTo::read>(row + kRowsAhead * out_width, head_dim);
#pragma omp simd reduction(+ : delta)
      for (std::int64_t i = 0; i < head_dim; ++i) delta += widened<T>(row[i]) * s.dout[q * padded + i];
      s.delta[q] = delta;
      s.lse[q] = lse[q];
    }
    std::fill(s.delta + shape.seq, s.delta + padded_seq(shape), T{0});
    std::fill(s.lse + shape.seq, s.lse + padded_seq(shape), T{0});
  }

  struct KeyBlock {
    std::int64_t first, at;  // of the sequence, of the chunk
    std::int64_t count;      // that are seen
  };
  struct QueryBlock {
    std::int64_t sequence, head, first;
  };
  void add_block(const QueryBlock& queries, const KeyBlock& block, T* dq, const Scratch<T>& s) const {
    const auto [k0, at, num_keys] = block;
    const std::int64_t q0 = queries.first;
    const std::int64_t padded = padded_head_dim<T>(shape), head_dim = shape.head_dim;
    const std::int64_t num_queries = std::min(kQueryBlock, shape.seq - q0);
    const bool on_diagonal = shape.causal && q0 - k0 < kKeyBlock - 1;
    const auto part = [&](CausalPart causal) { return on_diagonal ? causal : CausalPart::all; };
    const T* query = s.query + q0 * padded;
    const T* dout = s.dout + q0 * padded;

    BlockProduct<T> product;
    product.diagonal = q0 - k0;
    product.rows = num_queries, product.columns = kKeyBlock, product.b_in_panels = true;
    product.part = part(CausalPart::columns_up_to_row);
    product.operands = {.k = head_dim,
                        .a = query,
                        .a_stride = padded,
                        .b = s.keys_panels + at * head_dim,
                        .c = s.probs,
                        .ldc = kKeyBlock};
    multiply_block<RowsOfA::strided>(product);  // scores
    product.operands.a = dout, product.operands.b = s.values_panels + at * head_dim;
    product.operands.c = s.dscores;
    multiply_block<RowsOfA::strided>(product);  // dP
    differentiate_rows(queries, block, num_queries, on_diagonal, s);

    product.rows = num_keys, product.columns = padded, product.b_in_panels = false;
    product.part = part(CausalPart::k_from_row);
    T* dvalues = s.dvalues + at * padded;
    T* dkeys = s.dkeys + at * padded;
    product.operands = {.k = num_queries,
                        .a = s.probs,
                        .a_stride = kKeyBlock,
                        .b = dout,
                        .ldb = padded,
                        .c = dvalues,
                        .ldc = padded,
                        .addend = dvalues,
                        .ld_addend = padded};
    multiply_block<RowsOfA::adjacent>(product);  // dV += P^T dO
    product.operands.a = s.dscores, product.operands.b = query;
    product.operands.c = dkeys, product.operands.addend = dkeys;
    multiply_block<RowsOfA::adjacent>(product);  // dK += dS^T Q
    product.rows = num_queries;
    product.part = part(CausalPart::k_up_to_row);
    T* dq_block = dq + q0 * padded;
    product.operands = {.k = num_keys,
                        .a = s.dscores,
                        .a_stride = kKeyBlock,
                        .b = s.keys + at * padded,
                        .ldb = padded,
                        .c = dq_block,
                        .ldc = padded,
                        .addend = dq_block,
                        .ld_addend = padded};
    multiply_block<RowsOfA::strided>(product);  // dQ += dS K
  }

  // Of the rows of a block of scores and of dP.
  void differentiate_rows(const QueryBlock& queries, const KeyBlock& keys, std::int64_t num_queries,
                          bool on_diagonal, const Scratch<T>& s) const {
    const auto visible = [&](std::int64_t r) {
      return on_diagonal ? std::min(queries.first + r - keys.first + 1, keys.count) : keys.count;
    };
    const T* const lse = s.lse + queries.first;
    const T* const delta = s.delta + queries.first;
    // A loop of its own for dropout: among its code the other one ran slower.
    if (shape.dropout.drops()) {
      for (std::int64_t r = 0; r < num_queries; ++r) {
        const KeepBits row = keep_bits(shape, queries.sequence, queries.head, queries.first + r);
        differentiate_dropped_row(s.probs + r * kKeyBlock, s.dscores + r * kKeyBlock, visible(r), lse[r],
                                  delta[r], row, keys.first);
      }
      return;
    }
    for (std::int64_t r = 0; r < num_queries; ++r)
      differentiate_row(s.probs + r * kKeyBlock, s.dscores + r * kKeyBlock, visible(r), lse[r], delta[r]);
  }

  // Scores to probabilities, and dP to dS; both zero where the query sees no key.
  static void differentiate_row(T* probs, T* dscores, std::int64_t num_visible, T lse, T delta) {
    const std::int64_t columns = columns_at_work<T>(num_visible, kKeyBlock);
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) {
      probs[c] = bounded_exp(probs[c] - lse);
      dscores[c] = probs[c] * (dscores[c] - delta);
    }
    for (std::int64_t c = std::max<std::int64_t>(0, num_visible); c < columns; ++c) probs[c] = dscores[c] = 0;
  }

  // The same with dropout: probabilities come out as those that multiplied V.
  [[gnu::noinline]] static void differentiate_dropped_row(T* probs, T* dscores, std::int64_t num_visible,
                                                          T lse, T delta, const KeepBits& row,
                                                          std::int64_t k0) {
    const std::int64_t columns = columns_at_work<T>(num_visible, kKeyBlock);
    std::array<std::uint16_t, kKeyBlock> bits;
    row.draw(k0, columns, bits);
    const std::uint32_t threshold = row.threshold;
    const auto kept = static_cast<T>(row.factor);
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) {
      const T factor = bits[static_cast<std::size_t>(c)] >= threshold ? kept : T{0};
      const T prob = bounded_exp(probs[c] - lse);
      dscores[c] = prob * (factor * dscores[c] - delta);
      probs[c] = prob * factor;
    }
    for (std::int64_t c = std::max<std::int64_t>(0, num_visible); c < columns; ++c) probs[c] = dscores[c] = 0;
  }

  // One task: dQ of a block of queries of one head, over the chunks in order.
  void sum_chunks(std::int64_t b, std::int64_t h, std::int64_t q0) const {
    const std::int64_t padded = padded_head_dim<T>(shape);
    T* sums = dquery(b, h, 0);
    const std::int64_t q_end = std::min(shape.seq, q0 + kQueryBlock);
    for (std::int64_t chunk = 1; chunk < key_chunks(shape); ++chunk) {
      if (first_query(chunk) > q0) break;
      const T* more = dquery(b, h, chunk);
#pragma omp simd
      for (std::int64_t i = q0 * padded; i < q_end * padded; ++i) sums[i] += more[i];
    }
    store_dquery(b, h, q0, q_end, sums);
  }

  void store_dquery(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end,
                    const T* sums) const {
    const std::int64_t padded = padded_head_dim<T>(shape);
    const T scale = static_cast<T>(shape.scale);
    for (std::int64_t q = begin; q < end; ++q) {
      S* to = operands.dqkv.data() + (b * shape.seq + q) * shape.qkv_width() + h * shape.head_dim;
      fetch_head_row<FetchTo::write>(to + kRowsAhead * shape.qkv_width(), shape.head_dim);
      for (std::int64_t i = 0; i < shape.head_dim; ++i) to[i] = S(scale * sums[q * padded + i]);
    }
  }
};

}  // namespace

std::int64_t attention_grad_workspace_bytes(const AttentionShape& shape, DType dtype, int num_threads) {
  return dtype == DType::f64 ? workspace_bytes<double>(shape, num_threads)
                             : workspace_bytes<float>(shape, num_threads);
}

template <class S>
void attention_grad(ThreadPool& pool, const AttentionShape& shape, const AttentionGradOperands<S>& operands,
                    std::span<std::byte> workspace) {
  using T = Compute<S>;
  TS_ASSERT(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0);
  TS_ASSERT(std::ssize(operands.qkv) == shape.batch * shape.seq * shape.qkv_width());
  TS_ASSERT(operands.dqkv.size() == operands.qkv.size());
  TS_ASSERT(std::ssize(operands.out) == shape.batch * shape.seq * shape.out_width());
  TS_ASSERT(operands.dout.size() == operands.out.size());
  TS_ASSERT(std::ssize(operands.lse) == shape.batch * shape.seq * shape.num_heads);
  TS_ASSERT(std::ssize(workspace) >= attention_grad_workspace_bytes(shape, dtype_of<S>, pool.num_threads()));
  Carver carver(workspace);
  const Backward<S> backward{shape, operands, carver.take<T>(dquery_elems<T>(shape))};
  const std::span<std::byte> rest = workspace.subspan(static_cast<std::size_t>(carver.num_bytes()));
  const auto per_thread = static_cast<std::size_t>(carved_bytes<Scratch<T>>(shape));
  const std::int64_t num_heads = shape.batch * shape.num_kv_heads;
  pool.for_each_task(num_heads * key_chunks(shape), [&](std::int64_t task, int worker) {
    Carver of_thread(rest.subspan(static_cast<std::size_t>(worker) * per_thread));
    const Scratch<T> scratch(of_thread, shape);
    const std::int64_t head = task % num_heads;  // the first chunk first: its keys have the most queries
    backward.run_chunk(head / shape.num_kv_heads, head % shape.num_kv_heads, task / num_heads, scratch);
  });
  if (key_chunks(shape) == 1) return;
  const std::int64_t query_blocks = ceil_div(shape.seq, kQueryBlock);
  pool.for_each_task(shape.batch * shape.num_heads * query_blocks, [&](std::int64_t task, int) {
    const std::int64_t head = task / query_blocks;
    backward.sum_chunks(head / shape.num_heads, head % shape.num_heads, task % query_blocks * kQueryBlock);
  });
}

template void attention_grad(ThreadPool&, const AttentionShape&, const AttentionGradOperands<float>&,
                             std::span<std::byte>);
template void attention_grad(ThreadPool&, const AttentionShape&, const AttentionGradOperands<Bf16>&,
                             std::span<std::byte>);
template void attention_grad(ThreadPool&, const AttentionShape&, const AttentionGradOperands<double>&,
                             std::span<std::byte>);

}  // namespace tessera::cpu
