#include "tessera/comm/reduce_ascending.h"

#include <type_traits>

namespace tessera {
namespace {

// Elements that are read from all ranks before any is written: a few cache lines of each, which the compiler
// keeps in vector registers. Short, so that the lines are still in the first cache when they are written;
// more of them did not help, as the loop waits for memory.
constexpr std::int64_t kGroup = 64;

template <class T>
struct AccumulateOf {
  using Type = T;
};
template <>
struct AccumulateOf<Bf16> {
  using Type = float;
};

// Integers wrap as two's complement does; signed overflow is undefined in C++.
template <class A>
A combine(A sum, A next, std::integral_constant<Reduction, Reduction::sum>) {
  if constexpr (std::is_integral_v<A>) {
    using Unsigned = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<Unsigned>(sum) + static_cast<Unsigned>(next));
  } else {
    return sum + next;
  }
}

// A NaN stays one, on either side: a run that diverged on one rank must not look healthy on the others.
template <class A>
A combine(A largest, A next, std::integral_constant<Reduction, Reduction::max>) {
  return next > largest || next != next ? next : largest;
}

template <class T, Reduction R>
void reduce_group(std::span<const void* const> from, std::span<void* const> to, std::int64_t begin,
                  std::int64_t width) {
  using A = typename AccumulateOf<T>::Type;
  A sums[kGroup];
  const T* first = static_cast<const T*>(from[0]) + begin;
  for (std::int64_t i = 0; i < width; ++i) sums[i] = static_cast<A>(first[i]);
  for (std::size_t rank = 1; rank < from.size(); ++rank) {
    const T* next = static_cast<const T*>(from[rank]) + begin;
    for (std::int64_t i = 0; i < width; ++i) {
      sums[i] = combine(sums[i], static_cast<A>(next[i]), std::integral_constant<Reduction, R>());
    }
  }
  for (void* whole : to) {
    T* out = static_cast<T*>(whole) + begin;
    for (std::int64_t i = 0; i < width; ++i) {
      if constexpr (std::is_same_v<T, Bf16>) {
        out[i].bits = Bf16(sums[i]).bits;  // g++ vectorises no loop that copies a struct
      } else {
        out[i] = sums[i];
      }
    }
  }
}

template <class T, Reduction R>
void reduce(std::span<const void* const> from, std::span<void* const> to, std::int64_t count) {
  std::int64_t begin = 0;
  for (; begin + kGroup <= count; begin += kGroup) reduce_group<T, R>(from, to, begin, kGroup);
  if (begin < count) reduce_group<T, R>(from, to, begin, count - begin);
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
  }
}

}  // namespace tessera
