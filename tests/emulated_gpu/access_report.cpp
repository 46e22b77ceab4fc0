// What AccessWatch says before it ends the program.
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "emulated_gpu/access_watch.h"

#ifdef EMULATED_GPU_WATCHES
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulated {
namespace {

std::string text_of(uint3 index) {
  char text[64];
  std::snprintf(text, sizeof text, "(%u, %u, %u)", index.x, index.y, index.z);
  return text;
}

}  // namespace

std::string AccessWatch::name_of(const Place& place) const {
  char text[128];
  const std::uintptr_t offset = place.at - kMemoryBegin;
  if (offset >= kMemorySpan) {
    std::snprintf(text, sizeof text, "%zu bytes of static shared memory at +%#zx", place.bytes,
                  place.at - statics_);
  } else if (offset < kAllSharedSpan) {
    std::snprintf(text, sizeof text, "%zu bytes of shared memory at +%#zx", place.bytes,
                  offset % kSharedSpan);
  } else {
    const TakenMemory taken = taken_before(place.at);
    std::snprintf(text, sizeof text, "%zu bytes of global memory at %#zx, +%#zx of an allocation of %zu",
                  place.bytes, place.at, place.at - taken.begin, taken.bytes);
  }
  return text;
}
std::string AccessWatch::thread_name(Label label) const {
  const OfGrid& grid = *s_grid;
  if (top(label) == kOther) return "another thread";
  std::string block;
  if (static_cast<int>(top(label)) != number_ || label < first_)
    block = " of block " + text_of(std::prev(grid.blocks.upper_bound(label))->second);
  const int thread = thread_of(label);
  const auto at = static_cast<unsigned>(thread);
  const dim3 size = threads_of_block_;
  if (thread >= num_threads_) return "the copy engine" + block;
  return "thread " + text_of({at % size.x, at / size.x % size.y, at / size.x / size.y}) + block;
}

void AccessWatch::report_race(const Place& place, const char* does, Label other, const char* has) const {
  report(does + (" " + name_of(place)) + ", which " + thread_name(other) + " has " + has +
         (top(other) == kOther ? " as an atomic" : "") + ", and nothing orders the two (a race)");
}

void AccessWatch::report(const std::string& what) const {
  OfGrid& grid = *s_grid;
  const std::lock_guard lock(grid.mutex);
  const auto at = static_cast<unsigned>(actor_);
  const dim3 size = threads_of_block_;
  const std::string thread = text_of({at % size.x, at / size.x % size.y, at / size.x / size.y});
  std::fprintf(stderr, "emulated GPU: block %s, thread %s%s: %s\n", text_of(grid.blocks[first_]).c_str(),
               thread.c_str(), thread_of(label_) >= num_threads_ ? " (a copy that it began)" : "",
               what.c_str());
#ifdef EMULATED_GPU_WATCHES
  __sanitizer_print_stack_trace();
#endif
  std::abort();
}

}  // namespace emulated
