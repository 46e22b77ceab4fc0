#include "tessera/comm/reduce_ascending.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace tessera {
namespace {

// The widest vectors of this build; g++ 12 cuts wider ones into single elements.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// Elements are summed a pack of vectors at a time, in registers. Written with vector types because g++ 12,
// given plain loops over ranks and elements, exchanges the loops and runs four times slower.
constexpr int kVectors = 4;

template <class T>
using Accumulate = std::conditional_t<std::is_same_v<T, Bf16>, float, T>;

// Wrapped in a struct, as an attributed type cannot be a template argument.
template <class T>
struct Vector {
  static constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(Accumulate<T>));
  using Values [[gnu::vector_size(kVectorBytes)]] = Accumulate<T>;
};

using Words [[gnu::vector_size(kVectorBytes)]] = std::uint32_t;
using Halves [[gnu::vector_size(kVectorBytes / 2)]] = std::uint16_t;

template <class T>
typename Vector<T>::Values load(const T* from) {
  if constexpr (std::is_same_v<T, Bf16>) {
    Halves halves;
    std::memcpy(&halves, from, sizeof(halves));
    return std::bit_cast<typename Vector<T>::Values>(__builtin_convertvector(halves, Words) << 16);
  } else {
    typename Vector<T>::Values values;
    std::memcpy(&values, from, sizeof(values));
    return values;
  }
}

template <class T>
void store(T* to, const typename Vector<T>::Values& values) {
  if constexpr (std::is_same_v<T, Bf16>) {  // as Bf16(float)
    const Words bits = std::bit_cast<Words>(values);
    const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Words quiet_nan = (bits >> 16) | 0x40u;
    const Halves halves = __builtin_convertvector(values == values ? rounded : quiet_nan, Halves);
    std::memcpy(static_cast<void*>(to), &halves, sizeof(halves));
  } else {
    std::memcpy(to, &values, sizeof(values));
  }
}

// For a single value as for a vector of them, by the same expressions.
template <class T, Reduction R, class V>
V combine(const V& so_far, const V& next) {
  if constexpr (R == Reduction::max) {
    // A NaN stays, on either side: a run that diverged on one rank must not look healthy on the others.
    return (next > so_far) | (next != next) ? next : so_far;
  } else if constexpr (std::is_same_v<V, std::int32_t>) {
    return static_cast<V>(static_cast<std::uint32_t>(so_far) + static_cast<std::uint32_t>(next));
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return std::bit_cast<V>(std::bit_cast<Words>(so_far) +
                            std::bit_cast<Words>(next));  // wraps; signed may not
  } else {
    return so_far + next;
  }
}

template <class T, Reduction R>
void reduce_pack(std::span<const void* const> from, std::span<void* const> to, std::int64_t begin) {
  using V = typename Vector<T>::Values;
  constexpr int kLanes = Vector<T>::kLanes;
  V sums[kVectors];
  const T* first = static_cast<const T*>(from[0]) + begin;
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) sums[v] = load<T>(first + v * kLanes);
  for (const void* rank : from.subspan(1)) {
    const T* next = static_cast<const T*>(rank) + begin;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[v] = combine<T, R>(sums[v], load<T>(next + v * kLanes));
  }
  for (void* rank : to) {
    T* out = static_cast<T*>(rank) + begin;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store<T>(out + v * kLanes, sums[v]);
  }
}

template <class T, Reduction R>
void reduce_element(std::span<const void* const> from, std::span<void* const> to, std::int64_t i) {
  using A = Accumulate<T>;
  A sum = static_cast<A>(static_cast<const T*>(from[0])[i]);
  for (const void* rank : from.subspan(1)) {
    sum = combine<T, R>(sum, static_cast<A>(static_cast<const T*>(rank)[i]));
  }
  for (void* rank : to) static_cast<T*>(rank)[i] = static_cast<T>(sum);
}

template <class T, Reduction R>
void reduce(std::span<const void* const> from, std::span<void* const> to, std::int64_t count) {
  constexpr std::int64_t kPack = kVectors * Vector<T>::kLanes;
  std::int64_t i = 0;
  for (; i + kPack <= count; i += kPack) reduce_pack<T, R>(from, to, i);
  for (; i < count; ++i) reduce_element<T, R>(from, to, i);
}

template <class T>
void reduce(std::span<const void* const> from, std::span<void* const> to, std::int64_t count,
            Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return reduce<T, Reduction::sum>(from, to, count);
    case Reduction::max:
      return reduce<T, Reduction::max>(from, to, count);
  }
}

}  // namespace

void reduce_ascending(std::span<const void* const> from, std::span<void* const> to, std::int64_t count,
                      DType dtype, Reduction reduction) {
  switch (dtype) {
    case DType::f32:
      return reduce<float>(from, to, count, reduction);
    case DType::bf16:
      return reduce<Bf16>(from, to, count, reduction);
    case DType::f64:
      return reduce<double>(from, to, count, reduction);
    case DType::i32:
      return reduce<std::int32_t>(from, to, count, reduction);
    case DType::i16:
      break;
  }
  TS_ASSERT(!"a type that is added up");
}

}  // namespace tessera
