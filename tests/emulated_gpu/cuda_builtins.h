// The variables that every kernel sees. They are constants to it, as they are on a GPU: what watches accesses
// is not told of these.
#pragma once

#include <vector_types.h>

extern constinit thread_local const uint3 threadIdx, blockIdx, blockDim, gridDim;
