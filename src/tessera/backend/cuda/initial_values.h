// Initial weights made on the GPU: the numbers that base/philox.h makes on the host, but for the last bit of
// about one in a hundred million (the double logarithm and cosine of CUDA and of the host's C library differ
// in theirs before the result is rounded to float).
#pragma once

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

// f32, bf16 or the low halves of weights, any shape.
void fill_normal(Context& context, const TensorView& to, const NormalNumbers& numbers);

}  // namespace tessera::cuda
