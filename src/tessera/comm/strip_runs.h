// for_each_strip_run: where a piece of a rank's part lies in the whole (see Strips). Used by the
// communicators.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

// Calls f(offset in the whole, offset in the part, bytes) for the runs of [begin, begin + length) of rank's
// part that are contiguous in the whole, which is cut into strips of `strip` bytes over `size` ranks.
template <class F>
void for_each_strip_run(std::int64_t strip, int size, int rank, std::int64_t begin, std::int64_t length,
                        F f) {
  for (std::int64_t at_part = begin; at_part < begin + length;) {
    const std::int64_t outer = at_part / strip, within = at_part % strip;
    const std::int64_t run = std::min(strip - within, begin + length - at_part);
    f((outer * size + rank) * strip + within, at_part, run);
    at_part += run;
  }
}

}  // namespace tessera
