// Products of whole tiles by four warps (wgmma of Hopper): A[64, 16] B[16, N] with fp32 sums in registers, B
// and perhaps A in shared memory. They run on while the warps go on: groups of them are ended and waited for
// like copies, and registers that they read or write must not be touched before (PTX ISA, "Asynchronous
// warpgroup level matrix instructions").
//
// A thread of the 128 holds of a C[64, N], with g = lane / 4 and t = lane % 4, for each eight columns
// 8j..8j+7 {4j, 4j+1}: row 16 warp + g, columns 8j + 2t, 8j + 2t + 1;  {4j+2, 4j+3}: the same of row 16 warp
// + g + 8, which, rounded, is also its share of A: two groups of eight columns are one A[64, 16].
//
// Tiles in shared memory are rows of 64 bf16, 128 bytes, whose eight 16-byte packs are exchanged by the row's
// number (pack ^ row % 8), as the copy engine writes them; they begin at multiples of 1024 bytes.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kTileColumns = 64;
inline constexpr int kTileRowBytes = 128;

// Names a tile to a product (PTX: a matrix descriptor with swizzling of 128 bytes): A or B whose rows run
// along K (K-major), or B whose rows run along N (MN-major). `next_tile_bytes`: from one 64 columns to the
// next, where N is more than 64 of them.
__device__ inline std::uint64_t tile_descriptor(std::uint32_t shared_address, int next_tile_bytes = 16) {
  constexpr std::uint64_t kSwizzled128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightRows = 8 * kTileRowBytes / 16;
  return kSwizzled128 | kEightRows << 32 | static_cast<std::uint64_t>(next_tile_bytes / 16) << 16 |
         (shared_address & 0x3ffff) / 16;
}
// A descriptor of what lies `bytes` behind.
__device__ inline std::uint64_t behind(std::uint64_t descriptor, int bytes) {
  return descriptor + static_cast<std::uint64_t>(bytes / 16);
}

// What the threads wrote to registers is seen by the products behind it.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void end_product_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from reading or moving registers of products that may still run; after the wait.
template <int kNum>
__device__ void hold(float (&registers)[kNum]) {
#pragma unroll
  for (float& x : registers) asm volatile("" : "+f"(x)::"memory");
}
// Four 8 x 8 matrices of bf16, lane by lane as in C, each transposed to eight rows of 16 bytes whose
// addresses the lanes give.
__device__ inline void store_transposed(std::uint32_t shared_row, const std::uint32_t (&matrices)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_row),
               "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
               : "memory");
}

#define TESSERA_R4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define TESSERA_R16(c, i) TESSERA_R4(c, i), TESSERA_R4(c, i + 4), TESSERA_R4(c, i + 8), TESSERA_R4(c, i + 12)
#define TESSERA_R32(c, i) TESSERA_R16(c, i), TESSERA_R16(c, i + 16)

enum class BRows { kAlongN, kAlongK };  // what a row of B's tile runs along

// c = a b, or c += a b; A of 64 rows in shared memory.
template <BRows kRows>
__device__ void multiply_tiles(std::uint64_t a, std::uint64_t b, bool add, float (&c)[32]) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, add, 1, 1, 0, %35;\n}\n"
      : TESSERA_R32(c, 0)
      : "l"(a), "l"(b), "r"(int{add}), "n"(kRows == BRows::kAlongN));
}
template <BRows kRows>
__device__ void multiply_tiles(std::uint64_t a, std::uint64_t b, bool add, float (&c)[64]) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, add, 1, 1, 0, %67;\n}\n"
      : TESSERA_R32(c, 0), TESSERA_R32(c, 32)
      : "l"(a), "l"(b), "r"(int{add}), "n"(kRows == BRows::kAlongN));
}
// The same with A in registers and B's rows along N.
__device__ inline void multiply_tile(const std::uint32_t (&a)[4], std::uint64_t b, bool add, float (&c)[32]) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}\n"
      : TESSERA_R32(c, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}));
}
__device__ inline void multiply_tile(const std::uint32_t (&a)[4], std::uint64_t b, bool add, float (&c)[64]) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}\n"
      : TESSERA_R32(c, 0), TESSERA_R32(c, 32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{add}));
}

#undef TESSERA_R4
#undef TESSERA_R16
#undef TESSERA_R32

}  // namespace tessera::cuda
