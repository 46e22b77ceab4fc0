// The gradient of causal attention in bf16 on Hopper: faster than cuDNN's that adds in any order, and with
// the same bits every time. One kernel owns a block of keys, walks over the queries that see it and computes
// the scores once; the queries' gradients, to which all blocks of keys add, are added in a fixed order,
// arranged so that nobody waits for its turn (ordered_attention_order.h).
//
// attention.cpp prefers it to cuDNN's deterministic gradient, which stores the scores' gradients.
#pragma once

#include <span>

#include "tessera/backend/cuda/attention.h"

namespace tessera::cuda {

// For shapes that suits_hopper_kernels accepts.
std::int64_t ordered_attention_grad_bytes(const AttentionShape& shape);  // of scratch
void ordered_attention_grad(Context& context, const AttentionShape& shape,
                            const AttentionGradOperands& operands, std::span<std::byte> scratch);

}  // namespace tessera::cuda
