// The addresses of an emulated GPU's memory: a range of its own, in which nothing else lies, so that one
// comparison tells what a kernel reads or writes there from its variables. First the shared memory of the
// multiprocessors, then what cudaMalloc gives, each allocation behind pages that cannot be touched, and never
// twice at the same place: whoever uses freed memory, be it the host, is caught.
//
// Where kernels are watched (access_watch.h) there are cells for every two bytes and, for accesses of one
// byte, for every byte.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulated {

#ifdef EMULATED_GPU_WATCHES
inline constexpr bool kWatches = true;
#else
inline constexpr bool kWatches = false;
#endif

inline constexpr int kMultiprocessors = 3;

inline constexpr std::uintptr_t kMemoryBegin = 0x2000'0000'0000, kMemorySpan = std::uintptr_t{1} << 40;
inline constexpr std::uintptr_t kCellsBegin = 0x3000'0000'0000, kByteCellsBegin = 0x4000'0000'0000;
inline constexpr std::size_t kSharedBytes = 256 * 1024;     // of a multiprocessor
inline constexpr std::uintptr_t kSharedSpan = 1024 * 1024;  // from one's to the next one's
inline constexpr std::uintptr_t kAllSharedSpan = kMultiprocessors * kSharedSpan;

inline bool is_emulated_memory(std::uintptr_t at) {
  return at / kMemorySpan == kMemoryBegin / kMemorySpan;
}

std::byte* shared_memory_of(int multiprocessor);

// Pages of zeros; null: there are no more.
std::byte* take_memory(std::size_t bytes);
void give_back_memory(std::byte* memory, std::size_t bytes);
// Whether the bytes have all been taken; only where kernels are watched.
bool is_taken(std::uintptr_t at, std::size_t bytes);
// The piece that was taken last before this address, for messages.
struct TakenMemory {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};
TakenMemory taken_before(std::uintptr_t at);

// For what watches kernels: the whole range's.
inline std::uint64_t* cell_of(std::uintptr_t at) {
  return reinterpret_cast<std::uint64_t*>(kCellsBegin) + (at - kMemoryBegin) / 2;
}
inline std::uint64_t* byte_cell_of(std::uintptr_t at) {
  return reinterpret_cast<std::uint64_t*>(kByteCellsBegin) + (at - kMemoryBegin);
}
void clear_all_cells();

// Zeros, of which the system gives what is touched.
void* reserve(std::size_t bytes, std::uintptr_t at = 0);

}  // namespace emulated
