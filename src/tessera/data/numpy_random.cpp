#include "tessera/data/numpy_random.h"

#include <bit>
#include <limits>

namespace tessera {

std::uint64_t NumpyRandom::at_most(std::uint64_t max) {
  if (max == 0) return 0;  // draws nothing
  const std::uint64_t mask = std::numeric_limits<std::uint64_t>::max() >> std::countl_zero(max);
  while (true) {
    std::uint64_t value = engine_();
    if (max > std::numeric_limits<std::uint32_t>::max()) value = value << 32 | engine_();
    if ((value &= mask) <= max) return value;
  }
}

}  // namespace tessera
