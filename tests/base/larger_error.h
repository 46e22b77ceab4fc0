// larger_error: the larger of two errors, where NaN is larger than any number: std::max would keep the number
// and call a result that is not one a good one.
#pragma once

#include <cmath>

namespace tessera {

inline double larger_error(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

}  // namespace tessera
