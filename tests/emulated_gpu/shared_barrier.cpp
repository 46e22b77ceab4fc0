#include "emulated_gpu/shared_barrier.h"

#include <cassert>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "emulated_gpu/access_watch.h"
#include "emulated_gpu/tensor_map.h"
#include "emulated_gpu/thread_block.h"

namespace emulated {
namespace {

struct Phases {
  unsigned arrivals = 0, pending = 0, parity = 0;
  std::int64_t bytes = 0;    // that have not come
  std::vector<Moment> came;  // in this phase
  Known known;               // since the last one ended
  int engine = -1;           // of copies that arrive here
};
// Of the block that this thread of this machine runs.
thread_local std::map<const std::uint64_t*, Phases> t_barriers;

Phases& phases_of(const std::uint64_t* word) {
  if (t_watch != nullptr) t_watch->expect_written(reinterpret_cast<std::uintptr_t>(word), sizeof *word);
  return t_barriers.at(word);
}

void end_phase(Phases& phases) {
  if (phases.pending != 0 || phases.bytes != 0) return;
  phases.parity = 1 - phases.parity;
  phases.pending = phases.arrivals;
  phases.known = joined(phases.came);
  phases.came.clear();
  wake_waiting();
}

// The bytes that the work brings come to the barrier when it is done.
template <class Work>
void copy_then_arrive(const std::uint64_t* arrives, const Work& work) {
  Phases& phases = phases_of(arrives);
  AccessWatch* const watch = t_watch;
  Moment begun;
  if (watch != nullptr) {
    begun = watch->release();
    if (phases.engine < 0) phases.engine = watch->new_engine();
  }
  copy_beside([=, &phases, to = shared_memory()] {
    unsigned bytes = 0;
    if (watch != nullptr) {
      phases.came.push_back(watch->run_beside(begun, phases.engine, [&] { bytes = work(to); }));
    } else {
      bytes = work(to);
    }
    phases.bytes -= bytes;
    end_phase(phases);
  });
}

void add_floats(float* to, const std::byte* from, unsigned bytes) {
  note_read(to, bytes);
  note_write(to, bytes);
  for (unsigned i = 0; i < bytes / sizeof(float); ++i) {
    float x;
    std::memcpy(&x, from + i * sizeof x, sizeof x);
    to[i] += x;
  }
}

}  // namespace

void init_barrier(const std::uint64_t* word, unsigned arrivals) {
  note_write(word, sizeof *word);
  t_barriers[word] = {.arrivals = arrivals, .pending = arrivals};
}
void arrive_at_barrier(const std::uint64_t* word, unsigned expected_bytes) {
  Phases& phases = phases_of(word);
  if (t_watch != nullptr) phases.came.push_back(t_watch->release());
  phases.bytes += expected_bytes;
  assert(phases.pending > 0);
  --phases.pending;
  end_phase(phases);
}
void wait_for_phase(const std::uint64_t* word, unsigned parity) {
  Phases& phases = phases_of(word);
  wait_until([&] { return phases.parity != parity; });
  if (t_watch != nullptr) t_watch->acquire(phases.known);
}

void begin_box_copy(std::uint32_t shared, const CUtensorMap& map, int x, int y, int z,
                    const std::uint64_t* arrives) {
  copy_then_arrive(arrives, [=](std::byte* to) { return copy_box(to, shared, map, x, y, z); });
}
void begin_byte_copy(std::uint32_t shared, const void* global, unsigned bytes, const std::uint64_t* arrives) {
  assert(shared % 16 == 0 && reinterpret_cast<std::uintptr_t>(global) % 16 == 0 && bytes % 16 == 0);
  copy_then_arrive(arrives, [=](std::byte* to) {
    note_read(global, bytes);
    note_write(to + shared, bytes);
    std::memcpy(to + shared, global, bytes);
    return bytes;
  });
}

// Reads shared memory when reads or stores are waited for, and writes when stores are.
void begin_store(void* global, std::uint32_t shared, unsigned bytes, bool adds) {
  assert(shared % 16 == 0 && reinterpret_cast<std::uintptr_t>(global) % 16 == 0 && bytes % 16 == 0);
  const std::byte* const from = shared_memory() + shared;
  const auto taken = std::make_shared<std::vector<std::byte>>();
  begin_late(Late::store_read, [=] {
    note_read(from, bytes);
    taken->assign(from, from + bytes);
  });
  begin_late(Late::store, [=] {
    if (adds) return add_floats(static_cast<float*>(global), taken->data(), bytes);
    note_write(global, bytes);
    std::memcpy(global, taken->data(), bytes);
  });
}

void forget_barriers() {
  t_barriers.clear();
}

}  // namespace emulated
