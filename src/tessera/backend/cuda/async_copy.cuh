// Copies from global to shared memory that run on while the thread goes on (cp.async), in groups. A thread
// that waits for its own groups sees what it copied itself without any barrier.
#pragma once

#include <cuda_runtime.h>

namespace tessera::cuda {

// kBytes: 4 or 16, to which both addresses are aligned. 16 pass by the first-level cache.
template <int kBytes>
__device__ void copy_async(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 16);
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(global) : "memory");
  }
}

// The copies since the last call are a group; it may be empty.
__device__ inline void end_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until at most `kPending` groups, the youngest, are not complete.
template <int kPending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace tessera::cuda
