#include "emulated_gpu/matrix_products.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "emulated_gpu/access_watch.h"
#include "emulated_gpu/cuda_builtins.h"
#include "emulated_gpu/tensor_map.h"
#include "emulated_gpu/thread_block.h"

namespace emulated {
namespace {

constexpr int kTileColumns = 64, kTileRowBytes = 128;
constexpr std::uint32_t kSwizzledBytes = 16;  // stay together

float bf16_of(std::uint32_t pair, int which) {
  return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xffff0000);
}

// This thread's rows g and g + 8 of A[16, 16], of which lanes 4 g to 4 g + 3 have shown their Fragments.
void rows_of_a(const Shown& shown, float (&rows)[2][16]) {
  const int first_lane = static_cast<int>(threadIdx.x) % 32 / 4 * 4;
  for (int t = 0; t < 4; ++t) {
    Fragment of_lane;
    std::memcpy(of_lane, shown.of_lane[first_lane + t], sizeof of_lane);
    for (int part = 0; part < 4; ++part) {
      for (int i = 0; i < 2; ++i) rows[part % 2][part / 2 * 8 + 2 * t + i] = bf16_of(of_lane[part], i);
    }
  }
}

// The element of a tile's row, or of one of the tiles that follow: where it would be without the swizzle.
std::uint32_t place(std::uint64_t descriptor, int row, int column) {
  const auto first = static_cast<std::uint32_t>(descriptor),
             next_tile = static_cast<std::uint32_t>(descriptor >> 32);
  const auto tile = static_cast<std::uint32_t>(column / kTileColumns);
  return first + tile * next_tile +
         static_cast<std::uint32_t>(row * kTileRowBytes + column % kTileColumns * 2);
}
float tile_elem(const std::byte* shared, std::uint64_t descriptor, int row, int column) {
  std::uint16_t bits;
  std::memcpy(&bits, shared + swizzled(place(descriptor, row, column)), sizeof bits);
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Rows and columns of tiles that a warp reads, by its first lane.
void note_tile(const std::byte* shared, std::uint64_t descriptor, int first_row, int rows, int columns) {
  for (int row = first_row; row < first_row + rows; ++row) {
    for (int column = 0; column < columns; column += static_cast<int>(kSwizzledBytes / 2))
      note_read(shared + swizzled(place(descriptor, row, column)), kSwizzledBytes);
  }
}

void multiply_now(const TileProduct& p) {
  const std::byte* const shared = shared_memory();
  const int thread = static_cast<int>(threadIdx.x), first_row = thread / 32 % 4 * 16;
  if (thread % 32 == 0) {
    if (p.registers == nullptr) note_tile(shared, p.a, first_row, 16, 16);
    p.b_along_n ? note_tile(shared, p.b, 0, 16, 2 * p.num) : note_tile(shared, p.b, 0, 2 * p.num, 16);
  }
  float rows[2][16];
  if (p.registers != nullptr) {
    rows_of_a(show_to_warp(p.registers, sizeof(Fragment)), rows);
  } else {
    for (int k = 0; k < 16; ++k) {
      for (int i = 0; i < 2; ++i) rows[i][k] = tile_elem(shared, p.a, first_row + thread % 32 / 4 + 8 * i, k);
    }
  }
  for (int i = 0; i < p.num; i += 4) {  // rows g, g, g + 8, g + 8
    for (int which = 0; which < 2; ++which) {
      const int column = i / 4 * 8 + 2 * (thread % 4) + which;
      float of_column[16];
      for (int k = 0; k < 16; ++k)
        of_column[k] = p.b_along_n ? tile_elem(shared, p.b, k, column) : tile_elem(shared, p.b, column, k);
      for (int below = 0; below < 2; ++below) {
        float& c = p.c[i + 2 * below + which];
        float sum = p.add ? c : 0.0f;
        for (int k = 0; k < 16; ++k) sum += rows[below][k] * of_column[k];
        c = sum;
      }
    }
  }
}

}  // namespace

// Lanes 4 j to 4 j + 3 have column j of B.
void multiply(const Fragment& a, std::uint32_t b0, std::uint32_t b1, float (&c)[4]) {
  float rows[2][16];
  rows_of_a(show_to_warp(a, sizeof a), rows);
  const std::uint32_t b[2] = {b0, b1};
  const Shown& shown = show_to_warp(b, sizeof b);
  for (int column = 0; column < 2; ++column) {
    for (int t = 0; t < 4; ++t) {
      std::uint32_t of_column[2];
      std::memcpy(of_column, shown.of_lane[4 * (2 * (static_cast<int>(threadIdx.x) % 4) + column) + t],
                  sizeof of_column);
      for (int i = 0; i < 4; ++i) {
        const float factor = bf16_of(of_column[i / 2], i % 2);
        const int k = i / 2 * 8 + 2 * t + i % 2;
        c[column] += rows[0][k] * factor;
        c[2 + column] += rows[1][k] * factor;
      }
    }
  }
}

std::uint64_t tile_descriptor(std::uint32_t shared_address, int next_tile_bytes) {
  return std::uint64_t{shared_address} | static_cast<std::uint64_t>(next_tile_bytes) << 32;
}

void begin_product(const TileProduct& product) {
  begin_late(Late::product, [product] { multiply_now(product); });
}

}  // namespace emulated
