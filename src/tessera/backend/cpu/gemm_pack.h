// Packing: copies a block of a matrix, of any element type and either orientation, into the order in
// which the micro-kernel reads it: k by k, a panel's width of adjacent compute-type elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tessera/backend/cpu/simd.h"

namespace tessera::cpu {

// Loads Lanes elements, widening Bf16 to float.
template <int Lanes, class V, class S>
[[gnu::always_inline]] inline void load_converted(V& to, const S* from) {
  if constexpr (std::is_same_v<S, Bf16>) {
    typename Simd<std::uint16_t, Lanes>::Vector half;
    using Words = typename Simd<std::uint32_t, Lanes>::Vector;
    load(half, from);
    to = reinterpret_cast<V>(__builtin_convertvector(half, Words) << 16);
  } else {
    load(to, from);
  }
}

template <class T, class S>
[[gnu::always_inline]] inline T widened(S value) {
  if constexpr (std::is_same_v<S, Bf16>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

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

// A block of a matrix seen as [wide, k]: `wide` runs over the rows of A or the columns of B.
template <class S>
struct PackSource {
  const S* data = nullptr;
  std::int64_t ld = 0;
  bool wide_is_contiguous = false;

  // The same matrix, with (wide, k) as its origin.
  PackSource from(std::int64_t wide, std::int64_t k) const { return {at(wide, k), ld, wide_is_contiguous}; }
  const S* at(std::int64_t wide, std::int64_t k) const {
    return data + (wide_is_contiguous ? k * ld + wide : wide * ld + k);
  }
};

// Packs panels from `width` rows (columns) of `source`: element (w, i) goes to
// to[w / panel_width * panel_width * k + i * panel_width + w % panel_width]. The last panel is filled up with
// zeros. Squares of `Lanes` are transposed in registers; Lanes divides panel_width.
template <int Lanes, class T, class S>
void pack_panels(const PackSource<S>& source, std::int64_t width, std::int64_t k, T* to,
                 std::int64_t panel_width) {
  using V = typename Simd<T, Lanes>::Vector;
  // The hardware follows neither this many rows at once nor rows pages apart: fetch ahead.
  constexpr std::int64_t kElemsAhead = 256 / static_cast<std::int64_t>(sizeof(S)), kRowsAhead = 8;
  const std::int64_t whole_width = width / Lanes * Lanes;
  const std::int64_t whole_k = source.wide_is_contiguous ? k : k / Lanes * Lanes;
  if (source.wide_is_contiguous) {
    for (std::int64_t i = 0; i < k; ++i) {
      const S* from = source.at(0, i);
      T* panel = to + i * panel_width;
      for (std::int64_t w0 = 0; w0 < whole_width; w0 += panel_width, panel += panel_width * k) {
        const std::int64_t end = std::min(panel_width, whole_width - w0);
        for (std::int64_t w = 0; w < end; w += Lanes) {
          V vector;
          load_converted<Lanes>(vector, from + w0 + w);
          __builtin_prefetch(from + w0 + w + kRowsAhead * source.ld);
          store(panel + w, vector);
        }
      }
    }
  } else {
    for (std::int64_t w = 0; w < whole_width; w += Lanes) {
      T* panel = to + w / panel_width * panel_width * k + w % panel_width;
      for (std::int64_t i = 0; i < whole_k; i += Lanes) {
        V square[Lanes];
        const S* from = source.at(w, i);
#pragma GCC unroll 16
        for (int r = 0; r < Lanes; ++r) {
          load_converted<Lanes>(square[r], from + r * source.ld);
          __builtin_prefetch(from + r * source.ld + kElemsAhead);
        }
        transpose<T>(square);
#pragma GCC unroll 16
        for (int r = 0; r < Lanes; ++r) store(panel + (i + r) * panel_width, square[r]);
      }
    }
  }
  // What does not fill a vector, and the zeros.
  const std::int64_t padded_width = round_up(width, panel_width);
  for (std::int64_t w = 0; w < padded_width; ++w) {
    for (std::int64_t i = w < whole_width ? whole_k : 0; i < k; ++i) {
      to[w / panel_width * panel_width * k + i * panel_width + w % panel_width] =
          w < width ? widened<T>(*source.at(w, i)) : T{0};
    }
  }
}

}  // namespace tessera::cpu
