// Attention on the GPU: softmax(scale * Q K^T) V over packed heads, and its gradient. Blocks of keys stream
// past blocks of queries with a running maximum (Dao et al., 2022): no T x T matrix exists. Two versions of
// both, for what neither causal_attention.h, ordered_attention_grad.h, whole_head_attention.h nor cuDNN
// computes: tensor cores for bf16, and a plain one, in fp32 throughout, for everything else.
//
// Their gradient is two kernels, one that owns keys and one that owns queries. Both compute the scores again;
// in exchange every sum has one owner and a fixed order, and nothing but the rows' numbers is stored between
// them.
#pragma once

#include "tessera/backend/cuda/kernel.h"
#include "tessera/ops/attention_dropout.h"

namespace tessera::cuda {

struct AttentionShape {
  int batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = true;
  float scale = 1;
  bool padded = false;                       // whether there are key counts
  const std::int32_t* key_counts = nullptr;  // [batch], on the device: keys that are seen; null: all
  AttentionDropout dropout = {};
  const std::int32_t* dropout_key = nullptr;  // on the device; read if something is dropped

  __device__ int num_keys(int b) const { return key_counts == nullptr ? seq : key_counts[b]; }
  __host__ __device__ std::int64_t qkv_width() const { return std::int64_t{heads + 2 * kv_heads} * head_dim; }
  __host__ __device__ std::int64_t out_width() const { return std::int64_t{heads} * head_dim; }
  __host__ __device__ int group() const { return heads / kv_heads; }
};

// Whether causal_attention.h and ordered_attention_grad.h compute it, in bf16. (No model here has heads that
// share keys and dropout by its defaults.)
inline bool suits_hopper_kernels(const AttentionShape& shape) {
  return shape.causal && !shape.padded && (shape.head_dim == 64 || shape.head_dim == 128) &&
         (shape.group() == 1 || !shape.dropout.drops());
}

struct AttentionOperands {
  const void* qkv = nullptr;  // [batch, seq, qkv_width]
  void* out = nullptr;        // [batch, seq, out_width]
  float* lse = nullptr;       // [batch, heads, seq]: log of each query's sum of exponentials
};

struct AttentionGradOperands {
  const void *dout = nullptr, *qkv = nullptr, *out = nullptr;
  const float* lse = nullptr;
  void* dqkv = nullptr;
  float* delta = nullptr;        // scratch [batch, heads, seq]: sum of dout * out
  const float* turns = nullptr;  // [seq, head_dim / 2] of (cosine, sine), by which queries and keys were
                                 // turned: their gradients are turned back. Only by ordered_attention_grad.
};

// attention_grad and the rope that turns its result back, as one; false where the ordered gradient is not the
// one that runs, or the heads are turned in part.
bool run_attention_grad_turned(const KernelCall& grad, const KernelCall& rope, Context& context);

// Sequences, and heads of each: some kernels have a row of thread blocks for each, and a grid has no more.
inline void check_grid(std::string_view op, std::int64_t batch, std::int64_t heads) {
  constexpr std::int64_t kMost = 65535;
  TS_CHECK(batch <= kMost && heads <= kMost,
           "[{}] {} sequences of {} heads at a time are not computed on cuda, expected up to {} of either",
           op, batch, heads, kMost);
}

// head_dim up to kPlainHeadDim.
inline constexpr int kPlainHeadDim = 256;
void plain_attention(Context& context, const AttentionShape& shape, DType dtype,
                     const AttentionOperands& operands);
void plain_attention_grad(Context& context, const AttentionShape& shape, DType dtype,
                          const AttentionGradOperands& operands);

// bf16, head_dim a multiple of 8 up to kTensorCoreHeadDim.
inline constexpr int kTensorCoreHeadDim = 128;
void tensor_core_attention(Context& context, const AttentionShape& shape, const AttentionOperands& operands);
void tensor_core_attention_grad(Context& context, const AttentionShape& shape,
                                const AttentionGradOperands& operands);

// delta of all queries, for either gradient.
void attention_delta(Context& context, const AttentionShape& shape, DType dtype,
                     const AttentionGradOperands& operands);

}  // namespace tessera::cuda
