// Packing: copies a block of a matrix, of any element type and either orientation, into the order in
// which the micro-kernel reads it: k by k, a panel's width of adjacent compute-type elements.
#pragma once

#include <cstdint>
#include <type_traits>

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

// Transposes a square of vectors in log2(lanes) rounds; round s swaps lane bit s with row bit s.
template <class T, class V, int Lanes>
[[gnu::always_inline]] inline void transpose(V (&rows)[Lanes]) {
  using Index = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  using Mask = typename Simd<Index, Lanes>::Vector;
#pragma GCC unroll 4
  for (int s = 1; s < Lanes; s *= 2) {
    Mask low, high;
#pragma GCC unroll 16
    for (int lane = 0; lane < Lanes; ++lane) {
      const bool set = (lane & s) != 0;
      low[lane] = static_cast<Index>(set ? Lanes + lane - s : lane);
      high[lane] = static_cast<Index>(set ? Lanes + lane : lane + s);
    }
#pragma GCC unroll 16
    for (int i = 0; i < Lanes; ++i) {
      if ((i & s) != 0) continue;
      const V a = rows[i], b = rows[i + s];
      rows[i] = __builtin_shuffle(a, b, low);
      rows[i + s] = __builtin_shuffle(a, b, high);
    }
  }
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

// Packs panels of PanelWidth from `width` rows (columns) of `source`: element (w, i) goes to
// to[w / panel_width * panel_width * k + i * panel_width + w % panel_width]. The last panel is filled up with
// zeros. Squares of `Lanes` are transposed in registers; Lanes divides panel_width.
template <int Lanes, class T, class S>
void pack_panels(const PackSource<S>& source, std::int64_t width, std::int64_t k, T* to,
                 std::int64_t panel_width) {
  using V = typename Simd<T, Lanes>::Vector;
  // The hardware does not follow this many rows at once: fetch each a few cache lines ahead.
  constexpr std::int64_t kAhead = 256 / static_cast<std::int64_t>(sizeof(S));
  const std::int64_t padded_width = round_up(width, panel_width);
  const auto place = [&](std::int64_t w, std::int64_t i) {
    return to + w / panel_width * panel_width * k + i * panel_width + w % panel_width;
  };
  const std::int64_t whole_width = width / Lanes * Lanes;
  const std::int64_t whole_k = source.wide_is_contiguous ? k : k / Lanes * Lanes;
  if (source.wide_is_contiguous) {
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t w = 0; w < whole_width; w += Lanes) {
        V vector;
        load_converted<Lanes>(vector, source.at(w, i));
        store(place(w, i), vector);
      }
    }
  } else {
    for (std::int64_t w = 0; w < whole_width; w += Lanes) {
      for (std::int64_t i = 0; i < whole_k; i += Lanes) {
        V square[Lanes];
#pragma GCC unroll 16
        for (int r = 0; r < Lanes; ++r) {
          load_converted<Lanes>(square[r], source.at(w + r, i));
          __builtin_prefetch(source.at(w + r, i + kAhead));
        }
        transpose<T>(square);
        T* corner = place(w, i);
#pragma GCC unroll 16
        for (int r = 0; r < Lanes; ++r) store(corner + r * panel_width, square[r]);
      }
    }
  }
  for (std::int64_t w = 0; w < padded_width; ++w) {
    for (std::int64_t i = w < whole_width ? whole_k : 0; i < k; ++i) {
      *place(w, i) = w < width ? widened<T>(*source.at(w, i)) : T{0};
    }
  }
}

}  // namespace tessera::cpu
