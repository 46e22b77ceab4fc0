// The functions that g++ calls before every access of sources that are compiled with -fsanitize=thread, in
// the place of that sanitizer's runtime. Where none of them is called, this is empty.
#include "emulated_gpu/access_watch.h"

#ifdef EMULATED_GPU_WATCHES

namespace {

template <bool kWrites, std::size_t kBytes>
[[gnu::always_inline]] inline void note(const void* at) {
  emulated::AccessWatch* const watch = emulated::t_watch;
  if (watch == nullptr) return;
  if (kBytes == 1) return watch->access_slowly<kWrites>(reinterpret_cast<std::uintptr_t>(at), 1);
  watch->access<kWrites, kBytes>(reinterpret_cast<std::uintptr_t>(at));
}

}  // namespace

// Names that are the compiler's.
#define EMULATED_ACCESSES(bytes)             \
  void __tsan_read##bytes(const void* at) {  \
    note<false, bytes>(at);                  \
  }                                          \
  void __tsan_write##bytes(const void* at) { \
    note<true, bytes>(at);                   \
  }
#define EMULATED_UNALIGNED_ACCESSES(bytes)             \
  void __tsan_unaligned_read##bytes(const void* at) {  \
    note<false, bytes>(at);                            \
  }                                                    \
  void __tsan_unaligned_write##bytes(const void* at) { \
    note<true, bytes>(at);                             \
  }
// Of variables of the host: kernels' atomic accesses are instructions (block_order.h).
#define EMULATED_ATOMICS(bits, Type)                                         \
  Type __tsan_atomic##bits##_load(const volatile Type* at, int) {            \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                            \
  }                                                                          \
  void __tsan_atomic##bits##_store(volatile Type* at, Type value, int) {     \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                           \
  }                                                                          \
  Type __tsan_atomic##bits##_fetch_add(volatile Type* at, Type value, int) { \
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);                  \
  }                                                                          \
  Type __tsan_atomic##bits##_fetch_sub(volatile Type* at, Type value, int) { \
    return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST);                  \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

EMULATED_ACCESSES(1)
EMULATED_ACCESSES(2)
EMULATED_ACCESSES(4)
EMULATED_ACCESSES(8)
EMULATED_ACCESSES(16)
EMULATED_UNALIGNED_ACCESSES(2)
EMULATED_UNALIGNED_ACCESSES(4)
EMULATED_UNALIGNED_ACCESSES(8)
EMULATED_UNALIGNED_ACCESSES(16)
void __tsan_read_range(const void* at, std::size_t bytes) {
  emulated::note_read(at, bytes);
}
void __tsan_write_range(const void* at, std::size_t bytes) {
  emulated::note_write(at, bytes);
}

EMULATED_ATOMICS(8, unsigned char)
EMULATED_ATOMICS(32, unsigned)
EMULATED_ATOMICS(64, unsigned long)

}  // extern "C"

#endif
