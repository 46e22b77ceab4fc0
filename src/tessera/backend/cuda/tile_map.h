// tile_map: tells Hopper's copy engine where the matrices of a tensor lie, so that it can copy boxes of them
// (bulk_copy.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera::cuda {

struct Matrices {
  std::int64_t width = 0;  // elements of a row, of bf16
  std::int64_t rows = 0, matrices = 0;
};

// Boxes of 64 columns and `box_rows` rows, written to shared memory as warpgroup_mma.cuh reads tiles; zero
// behind a matrix's last row.
CUtensorMap tile_map(const void* data, const Matrices& matrices, int box_rows);

}  // namespace tessera::cuda
