// The instructions of backend/cuda/warpgroup_mma.cuh, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>

#include "emulated_gpu/matrix_products.h"
#include "tessera/backend/cuda/instructions.cuh"

namespace tessera::cuda {

inline constexpr int kTileColumns = 64;
inline constexpr int kTileRowBytes = 128;

inline std::uint64_t tile_descriptor(std::uint32_t shared_address, int next_tile_bytes = 16) {
  return emulated::tile_descriptor(shared_address, next_tile_bytes);
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

template <BRows kRows, int kNum>
void multiply_tiles(std::uint64_t a, std::uint64_t b, bool add, float (&c)[kNum]) {
  emulated::begin_product({a, b, nullptr, kRows == BRows::kAlongN, add, c, kNum});
}
template <int kNum>
void multiply_tile(const std::uint32_t (&a)[4], std::uint64_t b, bool add, float (&c)[kNum]) {
  emulated::begin_product({0, b, &a, true, add, c, kNum});
}

}  // namespace tessera::cuda
