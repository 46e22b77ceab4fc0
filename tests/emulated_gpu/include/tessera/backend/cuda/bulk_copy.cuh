// The instructions of backend/cuda/bulk_copy.cuh, emulated.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "emulated_gpu/shared_barrier.h"

namespace tessera::cuda {

inline std::uint32_t shared_address_of(const void* shared) {
  return emulated::shared_address(shared);
}

class SharedBarrier {
 public:
  void init(unsigned arrivals) { emulated::init_barrier(&word_, arrivals); }
  void arrive() { emulated::arrive_at_barrier(&word_, 0u); }
  void arrive_and_expect(unsigned bytes) { emulated::arrive_at_barrier(&word_, bytes); }
  void wait(unsigned parity) { emulated::wait_for_phase(&word_, parity); }
  const std::uint64_t* word() const { return &word_; }

 private:
  std::uint64_t word_;
};

inline void show_shared_to_engines() {}
inline void show_global_to_engines() {}

inline void copy_box(std::uint32_t shared, const CUtensorMap& map, int x, int y, int z,
                     SharedBarrier& arrives) {
  emulated::begin_box_copy(shared, map, x, y, z, arrives.word());
}
inline void copy_bytes(std::uint32_t shared, const void* global, unsigned bytes, SharedBarrier& arrives) {
  emulated::begin_byte_copy(shared, global, bytes, arrives.word());
}

inline void store_bytes(void* global, std::uint32_t shared, unsigned bytes) {
  emulated::begin_store(global, shared, bytes, false);
}
inline void add_floats(void* global, std::uint32_t shared, unsigned bytes) {
  emulated::begin_store(global, shared, bytes, true);
}
inline void end_store_group() {
  emulated::end_late_group(emulated::Late::store_read);
  emulated::end_late_group(emulated::Late::store);
}
inline void wait_for_store_reads() {
  emulated::wait_for_late(emulated::Late::store_read, 0);
}
inline void wait_for_stores() {
  wait_for_store_reads();
  emulated::wait_for_late(emulated::Late::store, 0);
}

}  // namespace tessera::cuda
