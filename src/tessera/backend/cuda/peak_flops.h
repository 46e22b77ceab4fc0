// What a GPU's tensor cores do in the best of cases: flops per second of a large bf16 product.
#pragma once

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

// Takes 0.4 GB for the moment; 0 if that is not free.
double measured_peak_flops(Context& context);

}  // namespace tessera::cuda
