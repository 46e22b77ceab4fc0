// The instructions of backend/cuda/bulk_copy.cuh, emulated.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulated_gpu/tensor_map.h"

namespace tessera::cuda {

inline std::uint32_t shared_address_of(const void* shared) {
  return emulated::shared_address(shared);
}

class SharedBarrier {
 public:
  void init(unsigned arrivals) {
    arrivals_ = pending_ = static_cast<std::int16_t>(arrivals);
    bytes_ = 0;
    parity_ = 0;
  }
  void arrive() {
    assert(pending_ > 0);
    --pending_;
    end_phase();
  }
  void arrive_and_expect(unsigned bytes) {
    bytes_ += static_cast<int>(bytes);
    arrive();
  }
  void bytes_came(unsigned bytes) {
    bytes_ -= static_cast<int>(bytes);
    end_phase();
  }
  void wait(unsigned parity) {
    emulated::wait_until([&] { return parity_ != parity; });
  }

 private:
  void end_phase() {
    if (pending_ != 0 || bytes_ != 0) return;
    parity_ = 1 - parity_;
    pending_ = arrivals_;
    emulated::wake_waiting();
  }

  std::int16_t arrivals_, pending_;
  int bytes_ : 24;  // that have not come
  unsigned parity_ : 8;
};
static_assert(sizeof(SharedBarrier) == 8);

inline void show_shared_to_engines() {}
inline void show_global_to_engines() {}

inline void copy_box(std::uint32_t shared, const CUtensorMap& map, int x, int y, int z,
                     SharedBarrier& arrives) {
  emulated::copy_beside([=, to = emulated::shared_memory(), arrives = &arrives] {
    arrives->bytes_came(emulated::copy_box(to, shared, map, x, y, z));
  });
}
inline void copy_bytes(std::uint32_t shared, const void* global, unsigned bytes, SharedBarrier& arrives) {
  assert(shared % 16 == 0 && reinterpret_cast<std::uintptr_t>(global) % 16 == 0 && bytes % 16 == 0);
  emulated::copy_beside([=, to = emulated::shared_memory(), arrives = &arrives] {
    std::memcpy(to + shared, global, bytes);
    arrives->bytes_came(bytes);
  });
}

// Reads `bytes` at `shared` when reads or stores are waited for, and hands them to `write` when stores are.
template <class Write>
void store_late(std::uint32_t shared, const void* global, unsigned bytes, Write write) {
  assert(shared % 16 == 0 && reinterpret_cast<std::uintptr_t>(global) % 16 == 0 && bytes % 16 == 0);
  const std::byte* const from = emulated::shared_memory() + shared;
  const auto taken = std::make_shared<std::vector<std::byte>>();
  emulated::begin_late(emulated::Late::store_read, [=] { taken->assign(from, from + bytes); });
  emulated::begin_late(emulated::Late::store, [=] { write(taken->data()); });
}
inline void store_bytes(void* global, std::uint32_t shared, unsigned bytes) {
  store_late(shared, global, bytes, [=](const std::byte* from) { std::memcpy(global, from, bytes); });
}
inline void add_floats(void* global, std::uint32_t shared, unsigned bytes) {
  store_late(shared, global, bytes, [=](const std::byte* from) {
    for (unsigned i = 0; i < bytes / sizeof(float); ++i)
      static_cast<float*>(global)[i] += reinterpret_cast<const float*>(from)[i];
  });
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
