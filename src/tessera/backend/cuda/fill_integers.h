// fill_integers: the same number in every element. For cuDNN, which wants a length per sequence.
#pragma once

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

void fill_integers(cudaStream_t stream, std::int32_t* to, int count, std::int32_t value);

}  // namespace tessera::cuda
