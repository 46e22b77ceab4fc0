// Elements in device code: stored as float or bf16, computed in float, moved in packs of W elements. A pack
// of kPack<T> elements is 16 bytes, the widest load; W = 1 serves shapes and addresses that do not allow it.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "tessera/base/dtype.h"

namespace tessera::cuda {

using BFloat = __nv_bfloat16;

template <class T>
inline constexpr DType kDTypeOf = std::is_same_v<T, BFloat> ? DType::bf16 : dtype_of<T>;

template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

__device__ inline float widen(float stored) {
  return stored;
}
__device__ inline float widen(BFloat stored) {
  return __bfloat162float(stored);
}

// For powers of two in place of exponentials.
inline constexpr float kLog2E = 1.4426950408889634f;

// Rounds to nearest, ties to even.
template <class T>
__device__ T narrow(float value) {
  if constexpr (std::is_same_v<T, BFloat>) {
    return __float2bfloat16_rn(value);
  } else {
    return value;
  }
}

template <class T, int W>
struct alignas(sizeof(T) * W) Pack {
  T elems[W];
};

// `from` and `to` are aligned to W elements.
template <int W, class T>
__device__ void load(const T* from, float (&to)[W]) {
  const Pack<T, W> pack = *reinterpret_cast<const Pack<T, W>*>(from);
#pragma unroll
  for (int i = 0; i < W; ++i) to[i] = widen(pack.elems[i]);
}

template <int W, class T>
__device__ void store(T* to, const float (&from)[W]) {
  Pack<T, W> pack;
#pragma unroll
  for (int i = 0; i < W; ++i) pack.elems[i] = narrow<T>(from[i]);
  *reinterpret_cast<Pack<T, W>*>(to) = pack;
}

}  // namespace tessera::cuda
