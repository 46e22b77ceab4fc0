// The softmax cross entropy of one row of logits. Used by the kernels of softmax_cross_entropy, and on
// the chunks of logits that linear_cross_entropy makes; the caller spreads rows over threads.
//
// T is float, Bf16 or double. Instantiated in cross_entropy_rows.cpp.
#pragma once

#include <span>

#include "tessera/backend/cpu/kernel.h"

namespace tessera::cpu {

// -log softmax(logits)[target]; 0 for a negative target. Unscaled.
template <class T>
double cross_entropy_row(std::span<const T> logits, std::int32_t target);

// The same, and grad = (softmax(logits) - onehot(target)) * scale; zeros for a negative target. grad is
// as long as logits and may lie on them.
template <class T>
double cross_entropy_row_grad(std::span<const T> logits, std::int32_t target, Accumulate<T> scale,
                              std::span<T> grad);

}  // namespace tessera::cpu
