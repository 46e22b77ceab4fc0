// Attention in bf16 and its gradient for short sequences, BERT's: a thread block has all queries and keys of
// a head, so every score is computed once, in registers, and no sum is ever corrected or added to by another
// block. Masks, lengths and dropout are all computed here. attention.cpp prefers it to cuDNN's, whose kernels
// are made for long sequences.
#pragma once

#include "tessera/backend/cuda/attention.h"

namespace tessera::cuda {

inline constexpr int kWholeHeadTokens = 128, kWholeHeadDims = 64;

inline bool suits_whole_head_kernels(const AttentionShape& shape) {
  return shape.seq <= kWholeHeadTokens && shape.head_dim == kWholeHeadDims && shape.group() == 1;
}

// For such shapes. `delta` is not used.
void whole_head_attention(Context& context, const AttentionShape& shape, const AttentionOperands& operands);
void whole_head_attention_grad(Context& context, const AttentionShape& shape,
                               const AttentionGradOperands& operands);

}  // namespace tessera::cuda
