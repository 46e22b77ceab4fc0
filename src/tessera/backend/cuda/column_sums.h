// Sums over the rows of a matrix: gradients of biases (sum_to), and the second stage of the norms' weight
// gradients. Two stages, both in a fixed order: parts of the rows into partial sums, those into the result.
#pragma once

#include <span>

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

struct MatrixShape {
  std::int64_t rows = 0, columns = 0;
  std::int64_t stride = 0;  // elements between two rows; 0: columns
};

// Where sums go: added to what lies there, or stored over it.
struct SumsPlace {
  float* at = nullptr;
  bool starts = false;
};

std::int64_t column_sums_workspace_bytes(MatrixShape shape);

// sums[c] (+)= sum over r of matrix[r, c].
void add_column_sums(Context& context, DType dtype, const void* matrix, MatrixShape shape, SumsPlace sums,
                     std::span<std::byte> workspace);

// The second stage alone, of one or two sums at once: sums[i][c] (+)= sum over part of partial[part, i, c].
void add_partial_sums(Context& context, const float* partial, MatrixShape shape, std::span<float* const> sums,
                      bool starts);

}  // namespace tessera::cuda
