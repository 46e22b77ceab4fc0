// transpose: a square of as many vectors as they have lanes, in registers. Used by gemm_pack.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "tessera/backend/cpu/simd.h"

namespace tessera::cpu {

// Round kStep of a transposition swaps that bit of the lane with that bit of the row. Masks and row numbers
// are compile-time constants, or the square would live in memory instead of registers.
template <class T, int kStep, class V, int Lanes, int... kLane>
[[gnu::always_inline]] inline void transpose_rounds(V (&rows)[Lanes],
                                                    std::integer_sequence<int, kLane...> lanes) {
  if constexpr (kStep < Lanes) {
    using Index = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
    using Mask = typename Simd<Index, Lanes>::Vector;
    constexpr Mask low = {((kLane & kStep) != 0 ? Lanes + kLane - kStep : kLane)...};
    constexpr Mask high = {((kLane & kStep) != 0 ? Lanes + kLane : kLane + kStep)...};
#pragma GCC unroll 16
    for (int pair = 0; pair < Lanes / 2; ++pair) {
      const int i = pair / kStep * 2 * kStep + pair % kStep;
      const V a = rows[i], b = rows[i + kStep];
      rows[i] = __builtin_shuffle(a, b, low);
      rows[i + kStep] = __builtin_shuffle(a, b, high);
    }
    transpose_rounds<T, 2 * kStep>(rows, lanes);
  }
}

template <class T, class V, int Lanes>
[[gnu::always_inline]] inline void transpose(V (&rows)[Lanes]) {
  transpose_rounds<T, 1>(rows, std::make_integer_sequence<int, Lanes>{});
}

}  // namespace tessera::cpu
