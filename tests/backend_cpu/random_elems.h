// Operands of the kernels that take plain spans: normal numbers of any type, and any type's numbers as
// double.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/bf16.h"
#include "tessera/base/philox.h"

namespace tessera::cpu {

template <class T>
std::vector<T> random_elems(std::int64_t n, std::uint64_t stream) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = T(philox_normal(7, stream, i));
  return v;
}

inline double wide(double x) {
  return x;
}
inline double wide(Bf16 x) {
  return static_cast<float>(x);
}

}  // namespace tessera::cpu
