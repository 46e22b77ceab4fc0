// Packing: copies a block of a matrix, of any element type and either orientation, into the order in
// which the micro-kernel reads it: k by k, a panel's width of adjacent compute-type elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tessera/backend/cpu/simd.h"
#include "tessera/backend/cpu/transpose.h"

namespace tessera::cpu {

template <class T, class S>
[[gnu::always_inline]] inline T widened(S value) {
  if constexpr (std::is_same_v<S, Bf16>) {
    return static_cast<float>(value);
  } else {
    return value;
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

// Where packed panels go: to the caches, if they are used at once, or past them. A large block would be
// read into the caches only to be overwritten and would push out what is in use.
enum class PackTo { cache, memory };

template <PackTo kTo, class T, class V>
[[gnu::always_inline]] inline void store_packed(T* to, const V& vector) {
  if constexpr (kTo == PackTo::memory && sizeof(V) == kVectorBytes) {
    stream(to, vector);
  } else {
    store(to, vector);
  }
}

// How far ahead to fetch: the hardware follows neither this many rows at once nor rows pages apart.
inline constexpr std::int64_t kPackBytesAhead = 256;
inline constexpr std::int64_t kPackRowsAhead = 4;

// Panels narrower than a vector, of A, are stored two k at a time.
template <int Lanes, class T>
inline constexpr int kRowsPerStore = 2 * Lanes == kLanes<T> ? 2 : 1;

// The whole vectors of a source whose `wide` is contiguous.
template <PackTo kTo, int Lanes, class T, class S>
void pack_rows(const PackSource<S>& source, std::int64_t width, std::int64_t k, T* to,
               std::int64_t panel_width) {
  using V = typename Simd<T, Lanes>::Vector;
  constexpr int num_rows = kRowsPerStore<Lanes, T>;
  for (std::int64_t i = 0; i + num_rows <= k; i += num_rows) {
    const S* from = source.at(0, i);
    T* panel = to + i * panel_width;
    for (std::int64_t w0 = 0; w0 < width; w0 += panel_width, panel += panel_width * k) {
      const std::int64_t end = std::min(panel_width, width - w0);
      for (std::int64_t w = 0; w < end; w += Lanes) {
        V vectors[num_rows];
        for (int r = 0; r < num_rows; ++r) {
          load_converted<Lanes>(vectors[r], from + w0 + w + r * source.ld);
          __builtin_prefetch(from + w0 + w + (r + kPackRowsAhead) * source.ld);
        }
        if constexpr (num_rows == 2) {
          const auto both = joined(vectors[0], vectors[1], std::make_integer_sequence<int, 2 * Lanes>{});
          store_packed<kTo>(panel + w, both);
        } else {
          store_packed<kTo>(panel + w, vectors[0]);
        }
      }
    }
  }
}

// The whole squares of a source whose k is contiguous, transposed in registers.
template <PackTo kTo, int Lanes, class T, class S>
void pack_columns(const PackSource<S>& source, std::int64_t width, std::int64_t k, T* to,
                  std::int64_t panel_width) {
  using V = typename Simd<T, Lanes>::Vector;
  for (std::int64_t w = 0; w < width; w += Lanes) {
    T* panel = to + w / panel_width * panel_width * k + w % panel_width;
    for (std::int64_t i = 0; i + Lanes <= k; i += Lanes) {
      V square[Lanes];
      const S* from = source.at(w, i);
#pragma GCC unroll 16
      for (int r = 0; r < Lanes; ++r) {
        load_converted<Lanes>(square[r], from + r * source.ld);
        __builtin_prefetch(from + r * source.ld + kPackBytesAhead / static_cast<std::int64_t>(sizeof(S)));
      }
      transpose<T>(square);
#pragma GCC unroll 16
      for (int r = 0; r < Lanes; ++r) store_packed<kTo>(panel + (i + r) * panel_width, square[r]);
    }
  }
}

// Packs panels from `width` rows (columns) of `source`: element (w, i) goes to
// to[w / panel_width * panel_width * k + i * panel_width + w % panel_width]. The last panel is filled up with
// zeros. Lanes divides panel_width, and is panel_width where it is less than a vector. For PackTo::memory,
// `to` is aligned to a vector.
template <int Lanes, PackTo kTo = PackTo::cache, class T, class S>
void pack_panels(const PackSource<S>& source, std::int64_t width, std::int64_t k, T* to,
                 std::int64_t panel_width) {
  const std::int64_t whole_width = width / Lanes * Lanes;
  const std::int64_t multiple = source.wide_is_contiguous ? kRowsPerStore<Lanes, T> : Lanes;
  const std::int64_t whole_k = k / multiple * multiple;
  if (source.wide_is_contiguous) {
    pack_rows<kTo, Lanes>(source, whole_width, k, to, panel_width);
  } else {
    pack_columns<kTo, Lanes>(source, whole_width, k, to, panel_width);
  }
  if constexpr (kTo == PackTo::memory) finish_streams();
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
