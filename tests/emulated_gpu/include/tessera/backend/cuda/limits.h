// The limits of backend/cuda/limits.h, so small that tests meet the second piece of everything.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::cuda {

inline constexpr std::int64_t kLogitsBytes = 4096, kLogitsRows = 16;
inline constexpr unsigned kUpdateTensors = 5;
inline constexpr unsigned kSquareStretches = 5, kSquareSums = 7;
inline constexpr unsigned kScalars = 32;
inline constexpr std::int64_t kSquareChunk = 512, kSquareChunksAtOnce = 64;
inline constexpr std::size_t kTransferBytes = 4096, kLateBytes = 16;
inline constexpr std::int64_t kMostStrips = 2;

}  // namespace tessera::cuda
