// attention_grad: the gradient of attention.h's attention with respect to qkv.
//
// Scores are computed again from q, k and the saved log-sum-exp, block by block; memory is linear in T.
// Sums over blocks and heads run in an order fixed by the shape, without atomics: the bits are the same
// for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/backend/cpu/attention.h"

namespace tessera::cpu {

template <class S>
struct AttentionGradOperands {
  std::span<const S> qkv;           // as given to attention
  std::span<const S> out;           // as attention wrote it
  std::span<const Compute<S>> lse;  // as attention wrote it
  std::span<const S> dout;          // [batch, seq, heads * head_dim]
  std::span<S> dqkv;                // as qkv; written completely
};

std::int64_t attention_grad_workspace_bytes(const AttentionShape& shape, DType dtype, int num_threads);

template <class S>
void attention_grad(ThreadPool& pool, const AttentionShape& shape, const AttentionGradOperands<S>& operands,
                    std::span<std::byte> workspace);

}  // namespace tessera::cpu
