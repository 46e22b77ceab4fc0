// Arena packing: gives intervals of time offsets in one piece of memory, so that no two that live at
// the same time overlap. Used by compile() for the temporary region.
#pragma once

#include <cstdint>
#include <span>

namespace tessera {

// Lives in steps [first, last] of one timeline.
struct Lifetime {
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;  // the result
};

// Largest first, each at the lowest offset that is free during its whole life. Returns the bytes needed.
std::int64_t pack(std::span<Lifetime> lifetimes);

}  // namespace tessera
