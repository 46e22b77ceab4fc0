// Instructions that CUDA C++ has no name for, one function each (PTX ISA). Those that copy and multiply tiles
// have headers of their own: async_copy.cuh, bulk_copy.cuh, warpgroup_mma.cuh.
//
// These four are all of this folder that only a GPU can run: an emulated one (tests/emulated_gpu) has others.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tessera::cuda {

// To 2^-22 of itself; numbers below 1.2e-38 are 0.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Likewise.
__device__ inline float sqrt_approx(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Memory of this GPU, in an order that other thread blocks see, too.
__device__ inline unsigned load_acquire(const unsigned* at) {
  unsigned value = 0;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ inline void store_release(unsigned* at, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// Eight bytes to global memory at once.
__device__ inline void store_words(void* to, uint2 words) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(words.x), "r"(words.y) : "memory");
}

// Barriers 1 to 15 of a thread block, of which __syncthreads() is 0: one opens when so many threads have
// come, of which some only say so and go on.
template <int kNumThreads>
__device__ void wait_at_barrier(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kNumThreads) : "memory");
}
template <int kNumThreads>
__device__ void arrive_at_barrier(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kNumThreads) : "memory");
}

// How many registers the threads of a group of four warps have from now on.
template <int kNum>
__device__ void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kNum));
}
template <int kNum>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kNum));
}

using Fragment = std::uint32_t[4];  // a warp's matrix of bf16, see mma.cuh

// Four matrices of 8 x 8 bf16 from shared memory: lane 8 i + r has the address of row r of matrix i. A lane
// gets two neighbours of row lane / 4 of each, or of the transposed matrix.
__device__ inline void load_matrices(const void* row, Fragment& to) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ inline void load_matrices_transposed(const void* row, Fragment& to) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

// c += a b, of 16 x 16 and 16 x 8.
__device__ inline void multiply(const Fragment& a, std::uint32_t b0, std::uint32_t b1, float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tessera::cuda
