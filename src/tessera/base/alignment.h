// Where tensors begin, in an arena and in a kernel's scratch.
#pragma once

#include <cstdint>

namespace tessera {

inline constexpr std::int64_t kAlignment = 256;  // cache lines, vector loads and CUDA's allocator agree on it

constexpr std::int64_t align_up(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace tessera
