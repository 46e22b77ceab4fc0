// attention: softmax(scale * Q K^T) V over packed heads, forward; attention_grad.h is its gradient.
//
// Called by the CPU kernel of the attention op. No T x T matrix exists: blocks of scores pass through the
// cache while a running maximum and sum keep the softmax exact (Dao et al., "FlashAttention", 2022), so
// memory grows linearly in T. The work is cut by the shape alone: the bits are the same for any number
// of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/backend/cpu/simd.h"
#include "tessera/base/dtype.h"
#include "tessera/base/thread_pool.h"
#include "tessera/ops/attention_dropout.h"

namespace tessera::cpu {

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads =
      0;  // divides num_heads; query head h reads key/value head h / (heads / kv heads)
  std::int64_t head_dim = 0;
  bool causal = true;
  double scale = 1;                               // of the scores, usually 1 / sqrt(head_dim)
  std::span<const std::int32_t> key_counts = {};  // that queries of each sequence see; empty: all
  AttentionDropout dropout = {};
  std::span<const std::int32_t> dropout_key = {};  // as the op has it; read if something is dropped

  std::int64_t qkv_width() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  std::int64_t out_width() const { return num_heads * head_dim; }
  std::int64_t num_keys(std::int64_t sequence) const {
    return key_counts.empty() ? seq : key_counts[static_cast<std::size_t>(sequence)];
  }
};

// `dtype` is that of qkv and out.
std::int64_t attention_workspace_bytes(const AttentionShape& shape, DType dtype, int num_threads);

// qkv [batch, seq, (heads + 2 kv heads) * head_dim]: all query heads, then key heads, then value heads;
// out [batch, seq, heads * head_dim]; lse [batch, heads, seq], the log of each query's sum of exponentials.
// S is float, Bf16 (computed in float) or double.
template <class S>
void attention(ThreadPool& pool, const AttentionShape& shape, std::span<const S> qkv, std::span<S> out,
               std::span<Compute<S>> lse, std::span<std::byte> workspace);

}  // namespace tessera::cpu
