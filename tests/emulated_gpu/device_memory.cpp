#include "emulated_gpu/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace emulated {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t pages_bytes(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

void* map(void* at, std::size_t bytes, int protection, int flags) {
  void* const memory =
      mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  if (memory == MAP_FAILED || (at != nullptr && memory != at)) {
    std::fprintf(stderr, "emulated GPU: the system does not give the addresses that it needs\n");
    std::abort();
  }
  return memory;
}

// Behind one lock: the machine's.
struct Range {
  Range() {
    map(reinterpret_cast<void*>(kMemoryBegin), kMemorySpan, PROT_NONE, MAP_FIXED_NOREPLACE);
    map(reinterpret_cast<void*>(kMemoryBegin), kMultiprocessors * kSharedSpan, PROT_READ | PROT_WRITE,
        MAP_FIXED);
    if (!kWatches) return;
    reserve(4 * kMemorySpan, kCellsBegin);
    reserve(8 * kMemorySpan, kByteCellsBegin);
    taken_of_page = static_cast<std::uint16_t*>(reserve(kMemorySpan / kPage * sizeof *taken_of_page));
  }
  std::uintptr_t next = kMemoryBegin + kMultiprocessors * kSharedSpan + kPage;
  std::uint16_t* taken_of_page = nullptr;  // bytes
  std::map<std::uintptr_t, std::size_t> taken;
};
Range& range() {
  static auto* const made = new Range;
  return *made;
}

void forget(void* from, std::size_t bytes) {
  madvise(from, bytes, MADV_DONTNEED);
}

}  // namespace

void* reserve(std::size_t bytes, std::uintptr_t at) {
  void* const memory =
      map(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, at == 0 ? 0 : MAP_FIXED_NOREPLACE);
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  return memory;
}

std::byte* shared_memory_of(int multiprocessor) {
  range();
  return reinterpret_cast<std::byte*>(kMemoryBegin +
                                      static_cast<std::uintptr_t>(multiprocessor) * kSharedSpan);
}

std::byte* take_memory(std::size_t bytes) {
  Range& r = range();
  const std::size_t size = pages_bytes(std::max(bytes, kPage));
  if (size > kMemoryBegin + kMemorySpan - r.next - kPage) return nullptr;
  auto* const memory =
      static_cast<std::byte*>(map(reinterpret_cast<void*>(r.next), size, PROT_READ | PROT_WRITE, MAP_FIXED));
  if (kWatches) {
    std::uint16_t* const of_page = r.taken_of_page + (r.next - kMemoryBegin) / kPage;
    for (std::size_t begin = 0; begin < bytes; begin += kPage)
      of_page[begin / kPage] = static_cast<std::uint16_t>(std::min(kPage, bytes - begin));
  }
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(memory + bytes, size - bytes);
#endif
  r.taken[r.next] = bytes;
  r.next += size + kPage;
  return memory;
}

void give_back_memory(std::byte* memory, std::size_t bytes) {
  const std::size_t size = pages_bytes(std::max(bytes, kPage));
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  map(memory, size, PROT_NONE, MAP_FIXED);
  range().taken.erase(at);
  if (!kWatches) return;
  std::fill_n(range().taken_of_page + (at - kMemoryBegin) / kPage, size / kPage, std::uint16_t{0});
  forget(cell_of(at), 4 * size);
  forget(byte_cell_of(at), 8 * size);
}

bool is_taken(std::uintptr_t at, std::size_t bytes) {
  const std::uintptr_t end = at + bytes;
  while (at < end) {
    const std::uintptr_t of_page = std::min(end, at / kPage * kPage + kPage) - at;
    if (at % kPage + of_page > range().taken_of_page[(at - kMemoryBegin) / kPage]) return false;
    at += of_page;
  }
  return true;
}

TakenMemory taken_before(std::uintptr_t at) {
  const auto after = range().taken.upper_bound(at);
  return after == range().taken.begin() ? TakenMemory{}
                                        : TakenMemory{std::prev(after)->first, std::prev(after)->second};
}

void clear_all_cells() {
  Range& r = range();
  const std::uintptr_t used = r.next - kMemoryBegin;
  forget(reinterpret_cast<void*>(kCellsBegin), 4 * used);
  forget(reinterpret_cast<void*>(kByteCellsBegin), 8 * used);
}

}  // namespace emulated
