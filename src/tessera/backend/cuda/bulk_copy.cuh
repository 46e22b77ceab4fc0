// Copies of whole tiles by Hopper's copy engine, between global and shared memory: one thread asks, a barrier
// in shared memory learns when the bytes have come (PTX ISA, "Asynchronous copy" and "mbarrier").
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace tessera::cuda {

__device__ inline std::uint32_t shared_address_of(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// Lets threads wait for others and for copies. It is in phases 0, 1, 0, ...: one ends when `arrivals` have
// come and the bytes that were announced.
class SharedBarrier {
 public:
  __device__ void init(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at()), "r"(arrivals) : "memory");
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at()) : "memory");
  }
  __device__ void arrive_and_expect(unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at()), "r"(bytes) : "memory");
  }
  // Until the phase `parity` has ended; passes at once for parity 1 of a fresh barrier.
  __device__ void wait(unsigned parity) {
    asm volatile(
        "{\n.reg .pred ended;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
        "@ended bra done;\nbra again;\ndone:\n}" ::"r"(at()),
        "r"(parity)
        : "memory");
  }
  __device__ std::uint32_t at() const { return shared_address_of(&state_); }

 private:
  std::uint64_t state_;
};

// Order ordinary accesses to shared or to global memory with those of copies and products: what either wrote
// before it the other sees after it. (One fence for both kinds of memory waits for the whole GPU.)
__device__ inline void show_shared_to_engines() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void show_global_to_engines() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// A box of a tensor that `map` describes, from element {x, y, z} on, to a swizzled tile.
__device__ inline void copy_box(std::uint32_t shared, const CUtensorMap& map, int x, int y, int z,
                                SharedBarrier& arrives) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4}], "
      "[%5];" ::"r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(arrives.at())
      : "memory");
}
// Bytes as they lie; addresses and sizes are multiples of 16.
__device__ inline void copy_bytes(std::uint32_t shared, const void* global, unsigned bytes,
                                  SharedBarrier& arrives) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(arrives.at())
      : "memory");
}

// To global memory, in groups of the asking thread.
__device__ inline void store_bytes(void* global, std::uint32_t shared, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared),
               "r"(bytes)
               : "memory");
}
__device__ inline void add_floats(void* global, std::uint32_t shared, unsigned bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
               "r"(shared), "r"(bytes)
               : "memory");
}
__device__ inline void end_store_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until shared memory has been read, or until everything is in global memory.
__device__ inline void wait_for_store_reads() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ inline void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace tessera::cuda
