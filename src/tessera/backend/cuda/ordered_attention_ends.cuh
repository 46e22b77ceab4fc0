// What comes before and after the kernel of ordered_attention_grad.cu, and where its scratch lies.
#pragma once

#include "tessera/backend/cuda/ordered_attention_memory.cuh"

namespace tessera::cuda {

template <int kDims>
std::int64_t scratch_bytes(const AttentionShape& shape);
// A call for this shape with its scratch; the tensors are yet to come.
template <int kDims>
GradCall<kDims> placed(const AttentionShape& shape, std::byte* scratch);

// Before: every row's sum of dout * out, lse for base 2, and counters at zero.
template <int kDims>
void make_row_numbers(Context& context, const GradCall<kDims>& call, const AttentionGradOperands& operands);
// After: the sums to bf16, those of keys after adding those of all heads that share them.
template <int kDims>
void round_sums(Context& context, const GradCall<kDims>& call);

}  // namespace tessera::cuda
