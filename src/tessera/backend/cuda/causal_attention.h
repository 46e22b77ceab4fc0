// Causal attention in bf16 on Hopper, the forward half of ordered_attention_grad.h: blocks of keys stream
// past tiles of queries whose sums stay in registers; while one group of warps computes exponentials, the
// other's products run (Shah et al., 2024). attention.cpp prefers it to cuDNN's.
#pragma once

#include <span>

#include "tessera/backend/cuda/attention.h"

namespace tessera::cuda {

// For shapes that suits_hopper_kernels accepts.
std::int64_t causal_attention_bytes(const AttentionShape& shape);  // of scratch
void causal_attention(Context& context, const AttentionShape& shape, const AttentionOperands& operands,
                      std::span<std::byte> scratch);

}  // namespace tessera::cuda
