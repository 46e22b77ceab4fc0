// Sizes beyond which work is done in several pieces. Those of a GPU are so large that no small test meets the
// second piece: the emulated one has a header of this name with small ones.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::cuda {

// Logits at a time: at most so many bytes, but at least so many rows, and a multiple of these.
inline constexpr std::int64_t kLogitsBytes = std::int64_t{1} << 30, kLogitsRows = 1024;

// Launches that work on many tensors get their addresses as parameters, of which there may be 4 KiB.
inline constexpr unsigned kUpdateTensors = 64;                      // of an optimizer
inline constexpr unsigned kSquareStretches = 96, kSquareSums = 96;  // of sum_squares
inline constexpr unsigned kScalars = 256;                           // and threads, of sum_scalars

// sum_squares: elements of a chunk, and chunks of a workspace. One tensor that has more gets more.
inline constexpr std::int64_t kSquareChunk = 16 * 1024, kSquareChunksAtOnce = 1 << 18;

// Pinned host memory: either buffer that copies go through, and that of scalars that are on their way.
inline constexpr std::size_t kTransferBytes = std::size_t{4} << 20, kLateBytes = 4096;

// NCCL runs a call per strip. More of them than this are copied together first.
inline constexpr std::int64_t kMostStrips = 64;

}  // namespace tessera::cuda
