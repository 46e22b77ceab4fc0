// The variables that every kernel sees.
#pragma once

#include <vector_types.h>

inline constinit thread_local uint3 threadIdx{}, blockIdx{};
inline constinit thread_local dim3 blockDim{}, gridDim{};
