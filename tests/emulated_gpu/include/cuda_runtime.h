// What nvcc gives to kernels beside the language, for an emulated GPU. Found before CUDA's header of this
// name.
#pragma once

#include_next <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "emulated_gpu/block_order.h"
#include "emulated_gpu/cuda_builtins.h"
#include "emulated_gpu/stream.h"
#include "emulated_gpu/thread_block.h"

// A multiprocessor is a thread of this machine, so this is its memory, which its blocks have one after the
// other.
#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)

inline void __syncthreads() {
  emulated::wait_at_barrier(0, 0);
}
inline void __syncwarp(unsigned = 0xffffffff) {
  emulated::wait_for_warp();
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  static_assert(sizeof(T) <= sizeof(emulated::Shown::of_lane[0]));
  T result;
  std::memcpy(&result, emulated::show_to_warp(&value, sizeof value).of_lane[lane & 31], sizeof result);
  return result;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return __shfl_sync(
      mask, value,
      static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32) ^ lanes);
}
inline int atomicAdd(int* at, int value) {
  return emulated::add_atomically(at, value);
}

inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __int_as_float(int bits) {
  return std::bit_cast<float>(bits);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
using std::max;
using std::min;

namespace emulated {

// kernel<<<blocks, threads, shared, stream>>>(arguments), rewritten by emulate_source.cmake.
class Launch {
 public:
  Launch(dim3 blocks, dim3 threads, std::size_t shared_bytes, cudaStream_t stream)
      : grid_{blocks, threads, shared_bytes}, stream_(stream) {}

  // The arguments are copied now, and each thread has its own copy.
  template <class Kernel, class... Args>
  void of(Kernel kernel, Args... args) const {
    launch(grid_, stream_,
           [kernel, copies = std::tuple<Args...>(std::move(args)...)] { std::apply(kernel, copies); });
  }

 private:
  Grid grid_;
  cudaStream_t stream_;
};

}  // namespace emulated
