// The instructions of backend/cuda/warpgroup_mma.cuh, emulated: a product happens when it is waited for, and
// reads its tiles and registers only then.
#pragma once

#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>

#include "emulated_gpu/tensor_map.h"
#include "tessera/backend/cuda/instructions.cuh"

namespace tessera::cuda {

inline constexpr int kTileColumns = 64;
inline constexpr int kTileRowBytes = 128;

inline std::uint64_t tile_descriptor(std::uint32_t shared_address, int next_tile_bytes = 16) {
  return std::uint64_t{shared_address} | static_cast<std::uint64_t>(next_tile_bytes) << 32;
}
inline std::uint64_t behind(std::uint64_t descriptor, int bytes) {
  return descriptor + static_cast<std::uint64_t>(bytes);
}

inline void begin_products() {}
inline void end_product_group() {
  emulated::end_late_group(emulated::Late::product);
}
template <int kPending>
void wait_for_products() {
  emulated::wait_for_late(emulated::Late::product, kPending);
}
template <int kNum>
void hold(float (&)[kNum]) {}

// Lane 8 i + r names row r of matrix i; what lane l has of a matrix are two neighbours of row l / 4, before
// it is transposed.
inline void store_transposed(std::uint32_t shared_row, const std::uint32_t (&matrices)[4]) {
  assert(shared_row % 16 == 0);
  const int lane = static_cast<int>(threadIdx.x % 32), i = lane / 4, j = lane % 4 * 2;
  const emulated::Shown& rows = emulated::show_to_warp(&shared_row, sizeof shared_row);
  for (int matrix = 0; matrix < 4; ++matrix) {
    for (int which = 0; which < 2; ++which) {
      std::uint32_t row;
      std::memcpy(&row, rows.of_lane[8 * matrix + j + which], sizeof row);
      const auto elem = static_cast<std::uint16_t>(matrices[matrix] >> 16 * which);
      std::memcpy(emulated::shared_memory() + row + 2 * i, &elem, sizeof elem);
    }
  }
}

enum class BRows { kAlongN, kAlongK };

// The element of a tile's row, or of one of the tiles that follow.
inline float tile_elem(std::uint64_t descriptor, int row, int column) {
  const auto first = static_cast<std::uint32_t>(descriptor),
             next_tile = static_cast<std::uint32_t>(descriptor >> 32);
  const auto tile = static_cast<std::uint32_t>(column / kTileColumns);
  const std::uint32_t at =
      first + tile * next_tile + static_cast<std::uint32_t>(row * kTileRowBytes + column % kTileColumns * 2);
  std::uint16_t bits;
  std::memcpy(&bits, emulated::shared_memory() + emulated::swizzled(at), sizeof bits);
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// A thread's rows of C, from its rows of A.
template <BRows kRows, int kNum>
void multiply_rows_of_thread(const float (&a)[2][16], std::uint64_t b, bool add, float* c) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  for (int i = 0; i < kNum; i += 2) {  // rows g, g, g + 8, g + 8
    for (int which = 0; which < 2; ++which) {
      const int column = i / 4 * 8 + 2 * t + which;
      float sum = add ? c[i + which] : 0.0f;
      for (int k = 0; k < 16; ++k)
        sum +=
            a[i / 2 % 2][k] * (kRows == BRows::kAlongN ? tile_elem(b, k, column) : tile_elem(b, column, k));
      c[i + which] = sum;
    }
  }
}

template <BRows kRows, int kNum>
void multiply_tiles(std::uint64_t a, std::uint64_t b, bool add, float (&c)[kNum]) {
  emulated::begin_late(emulated::Late::product, [=, c = &c[0]] {
    const int row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    float rows[2][16];
    for (int k = 0; k < 16; ++k) rows[0][k] = tile_elem(a, row, k), rows[1][k] = tile_elem(a, row + 8, k);
    multiply_rows_of_thread<kRows, kNum>(rows, b, add, c);
  });
}
template <int kNum>
void multiply_tile(const std::uint32_t (&a)[4], std::uint64_t b, bool add, float (&c)[kNum]) {
  emulated::begin_late(emulated::Late::product, [=, a = &a[0], c = &c[0]] {
    float rows[2][16];
    rows_of_a(emulated::show_to_warp(a, sizeof(Fragment)), rows);
    multiply_rows_of_thread<BRows::kAlongN, kNum>(rows, b, add, c);
  });
}

}  // namespace tessera::cuda
