// What collectives should give, computed the plain way on one thread from every rank's data, which any rank
// can compute: data is a function of (seed, rank, element).
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera::conformance {

// Magnitudes of many sizes and both signs, so that another order of addition gives other bits.
template <class T>
T value(int seed, int rank, std::int64_t elem) {
  std::uint64_t x = static_cast<std::uint64_t>(seed) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(rank);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u + static_cast<std::uint64_t>(elem);
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint32_t>(x));  // sums wrap
  } else {
    const double mantissa = static_cast<double>(x >> 11) * 0x1p-52 - 1.0;
    const double scaled = std::ldexp(mantissa, static_cast<int>(x % 24) - 12);
    if constexpr (std::is_same_v<T, Bf16>) return Bf16(static_cast<float>(scaled));
    return static_cast<T>(scaled);
  }
}
template <>
inline Bf16 value<Bf16>(int seed, int rank, std::int64_t elem) {
  return Bf16(value<float>(seed, rank, elem));
}

template <class T>
std::vector<T> values(int seed, int rank, std::int64_t count) {
  std::vector<T> data(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) data[i] = value<T>(seed, rank, i);
  return data;
}

inline float plain_sum(float a, float b) {
  return a + b;
}
inline double plain_sum(double a, double b) {
  return a + b;
}
inline std::int32_t plain_sum(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::int64_t>(a) + b);
}

// Element `elem` of the reduction over ranks 0, 1, ..., size - 1.
template <class T>
T reduced(int seed, int size, std::int64_t elem, Reduction reduction) {
  using A = std::conditional_t<std::is_same_v<T, Bf16>, float, T>;
  A result = static_cast<A>(value<T>(seed, 0, elem));
  for (int rank = 1; rank < size; ++rank) {
    const A next = static_cast<A>(value<T>(seed, rank, elem));
    result = reduction == Reduction::sum ? plain_sum(result, next) : std::max(result, next);
  }
  return static_cast<T>(result);
}

// Throws Error at the first element whose bits differ: a case runs where no test framework may (a rank of
// mpirun).
template <class T>
void expect_same_bits(const std::vector<T>& found, const std::vector<T>& expected, const std::string& what) {
  TS_CHECK(found.size() == expected.size(), "{}: found {} elements, expected {}", what, found.size(),
           expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(T)) == 0) continue;
    fail("{}, element {}: found {}, expected {}", what, i, static_cast<double>(static_cast<float>(found[i])),
         static_cast<double>(static_cast<float>(expected[i])));
  }
}

// Calls f(T()) for every element type.
template <class F>
void for_each_dtype(F f) {
  f(float());
  f(double());
  f(Bf16());
  f(std::int32_t());
}

inline std::string describe(const char* call, std::int64_t outer, std::int64_t inner, DType dtype,
                            const Communicator& comm) {
  return fmt::format("{} of {} x {} {}, rank {} of {}", call, outer, inner, dtype_name(dtype), comm.rank(),
                     comm.size());
}

}  // namespace tessera::conformance
