// Products of the tensor cores, emulated: what backend/cuda/instructions.cuh and warpgroup_mma.cuh name.
#pragma once

#include <cstdint>

namespace emulated {

using Fragment = std::uint32_t[4];

// c += a b of 16 x 16 and 16 x 8, of which each lane has its part.
void multiply(const Fragment& a, std::uint32_t b0, std::uint32_t b1, float (&c)[4]);

// Where a tile lies in shared memory, and how far behind it the next one to its right.
std::uint64_t tile_descriptor(std::uint32_t shared_address, int next_tile_bytes);

// A product of a group of four warps with 16 rows or columns of B, to `num` sums of each thread: happens when
// it is waited for, and reads its tiles and registers only then.
struct TileProduct {
  std::uint64_t a, b;
  const Fragment* registers;  // A, if not null
  bool b_along_n;             // a row of the tile is one of B, else a column
  bool add;
  float* c;
  int num;
};
void begin_product(const TileProduct& product);

}  // namespace emulated
