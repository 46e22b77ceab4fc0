// The instructions of backend/cuda/async_copy.cuh, emulated: a copy happens when it is waited for.
#pragma once

#include <cuda_runtime.h>

namespace tessera::cuda {

template <int kBytes>
void copy_async(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 16);
  struct alignas(kBytes) Bytes {
    std::byte bytes[kBytes];
  };
  emulated::shared_address(shared);  // is one
  emulated::begin_late(emulated::Late::small_copy,
                       [=] { *static_cast<Bytes*>(shared) = *static_cast<const Bytes*>(global); });
}
inline void end_copy_group() {
  emulated::end_late_group(emulated::Late::small_copy);
}
template <int kPending>
void wait_for_copies() {
  emulated::wait_for_late(emulated::Late::small_copy, kPending);
}

}  // namespace tessera::cuda
