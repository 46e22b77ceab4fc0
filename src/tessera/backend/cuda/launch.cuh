// How kernels are launched: element types from a DType, tensors as typed pointers, grids from sizes, and
// whether packs of 16 bytes fit. Host code, for the .cu files of this folder.
#pragma once

#include <algorithm>
#include <type_traits>

#include "tessera/backend/cuda/cuda_call.h"
#include "tessera/backend/cuda/element.cuh"
#include "tessera/backend/cuda/kernel.h"
#include "tessera/backend/cuda/shared_limit.h"

namespace tessera::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;

// Of an H100 or H200. Sums are cut for so many, whatever the card has: their bits are the same on all.
inline constexpr std::int64_t kMultiprocessors = 132;

// Calls f with a value of the element type.
template <class F>
void for_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(BFloat{});
    case DType::f64:
    case DType::i32:
    case DType::i16:
      break;
  }
  TS_ASSERT(!"f32 or bf16");
}

template <class T>
T* data(const TensorView& view) {
  TS_ASSERT(view.dtype == kDTypeOf<T>);
  return static_cast<T*>(view.data);
}

inline unsigned num_blocks(std::int64_t work, std::int64_t per_block) {
  return static_cast<unsigned>((work + per_block - 1) / per_block);
}

// Whether rows of `columns` elements of T that begin at these addresses can be moved in 16-byte packs.
template <class T, class... Pointers>
bool packs_fit(std::int64_t columns, const Pointers*... rows) {
  return columns % kPack<T> == 0 && ((reinterpret_cast<std::uintptr_t>(rows) % 16 == 0) && ...);
}

// Calls f with std::integral_constant<int, W>: whole packs, or single elements.
template <class T, class F>
void with_packs(bool fit, F&& f) {
  if (fit) {
    f(std::integral_constant<int, kPack<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

// Threads of a block that owns a row of `columns` elements in packs of W.
inline unsigned row_threads(std::int64_t columns, int w, unsigned most = kThreads) {
  const unsigned packs = num_blocks(columns, w);
  return std::clamp((packs + kWarp - 1) / kWarp * kWarp, unsigned{kWarp}, most);
}

// Lets a kernel have more than 48 KB of shared memory, its static variables included, for which 16 KB are
// more than enough. Cheap enough for every launch.
template <class Kernel>
void allow_shared_bytes(Kernel* kernel, std::size_t bytes) {
  if (bytes > 32 * 1024) raise_shared_limit(reinterpret_cast<const void*>(kernel), bytes);
}

inline unsigned num_multiprocessors() {
  int device = 0, count = 0;
  check_cuda(cudaGetDevice(&device), "find the GPU");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "find the GPU");
  return static_cast<unsigned>(count);
}

// As many blocks of kThreads as the GPU runs at once: the grid of a kernel whose blocks walk through the
// work. One more and a last few blocks would run alone.
template <class Kernel>
unsigned resident_blocks(Kernel* kernel) {
  int per_processor = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, kThreads, 0),
             "choose a grid");
  return num_multiprocessors() * static_cast<unsigned>(std::max(1, per_processor));
}

// The call's workspace from `offset` bytes on.
template <class T>
T* workspace_at(const KernelCall& call, std::int64_t offset, std::int64_t num_elems) {
  TS_ASSERT(offset + num_elems * static_cast<std::int64_t>(sizeof(T)) <=
            static_cast<std::int64_t>(call.workspace.size()));
  return reinterpret_cast<T*>(call.workspace.data() + offset);
}

}  // namespace tessera::cuda
