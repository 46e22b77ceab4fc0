// Simd: vectors of the widest kind this build has, as GCC's portable vector type.
//
// This is the one place that looks at the instruction set; kernels take the number of lanes and the
// register budget from here, so the same source serves AVX-512, AVX2 and plain SSE.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "tessera/base/bf16.h"

namespace tessera::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kNumVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kNumVectorRegisters = 16;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kNumVectorRegisters = 16;
#endif

template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

// A vector of `Lanes` elements. Wrapped in a struct, as an attributed type cannot be a template argument.
template <class T, int Lanes = kLanes<T>>
struct Simd {
  using Vector [[gnu::vector_size(Lanes * sizeof(T))]] = T;
};

// Loads and stores need no alignment: on the CPUs of interest an unaligned access to aligned data is free.
template <class V, class T>
[[gnu::always_inline]] inline void load(V& to, const T* from) {
  __builtin_memcpy(&to, from, sizeof(V));
}
template <class V, class T>
[[gnu::always_inline]] inline void store(T* to, const V& from) {
  __builtin_memcpy(to, &from, sizeof(V));
}

// Stores a whole vector past the caches: its line is neither read first nor kept. `to` is aligned to the
// vector. Other threads see the vector after finish_streams.
template <class V, class T>
[[gnu::always_inline]] inline void stream(T* to, const V& from) {
  static_assert(sizeof(V) == kVectorBytes);
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(from));
#elif defined(__AVX__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(from));
#elif defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(from));
#else
  store(to, from);
#endif
}
inline void finish_streams() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

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

// The lanes of a, then those of b, where `lanes` counts them all.
template <class V, int... kLane>
[[gnu::always_inline]] inline auto joined(const V& a, const V& b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, kLane...);
}

// The type that sums of T are kept in.
template <class T>
struct ComputeOf {
  using Type = float;
};
template <>
struct ComputeOf<double> {
  using Type = double;
};
template <class T>
using Compute = typename ComputeOf<T>::Type;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace tessera::cpu
