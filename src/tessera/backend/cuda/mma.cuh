// Tensor-core products of small bf16 tiles, of 16 x 8 x 16 with fp32 sums (PTX ISA, "Warp-level matrix
// instructions"): the fragments that a warp's lanes hold, from shared memory and back to rows.
//
// With g = lane / 4 and t = lane % 4 a lane holds
//   - of A[16, 16] rows g and g + 8, columns 2t, 2t+1, 2t+8 and 2t+9: {(g, 2t..), (g+8, 2t..), (g, 2t+8..),
//     (g+8, 2t+8..)};
//   - of B[16, 8] column g, rows 2t, 2t+1 and 2t+8, 2t+9;
//   - of C[16, 8] (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1),
// so two neighbouring C tiles, rounded to bf16, are one A fragment: products chain without leaving registers.
#pragma once

#include "tessera/backend/cuda/attention_rows.cuh"
#include "tessera/backend/cuda/element.cuh"
#include "tessera/backend/cuda/instructions.cuh"

namespace tessera::cuda {

// A Fragment is A, or two tiles of B: {0, 1} and {2, 3}.

// Rows of a head in shared memory. 16 bytes more than needed: eight rows of a fragment then lie in different
// banks.
template <int kRows, int kDims>
struct alignas(16) SharedRows {
  BFloat rows[kRows][kDims + 8];
};

// Rows from `first` on, zero behind the last row and the last column; all threads of the block take part.
template <int kRows, int kDims>
__device__ void load_rows(const BFloat* head, std::int64_t row_stride, int first, const AttentionShape& shape,
                          SharedRows<kRows, kDims>& to) {
  constexpr int kPacks = kDims / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += static_cast<int>(blockDim.x)) {
    const int row = i / kPacks, column = i % kPacks * 8;
    uint4 pack = make_uint4(0, 0, 0, 0);
    if (first + row < shape.seq && column < shape.head_dim) {
      pack = *reinterpret_cast<const uint4*>(head + (first + row) * row_stride + column);
    }
    *reinterpret_cast<uint4*>(&to.rows[row][column]) = pack;
  }
}

// A[16, 16] from rows [row, row + 16) and columns [column, column + 16).
template <int kRows, int kDims>
__device__ void load_a(const SharedRows<kRows, kDims>& from, int row, int column, Fragment& to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_matrices(&from.rows[row + lane % 16][column + lane / 16 * 8], to);
}
// Two tiles B[16, 8] whose columns are the rows [row, row + 16): products with a transposed matrix.
template <int kRows, int kDims>
__device__ void load_b_of_rows(const SharedRows<kRows, kDims>& from, int row, int column, Fragment& to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_matrices(&from.rows[row + lane / 16 * 8 + lane % 8][column + lane / 8 % 2 * 8], to);
}
// Two tiles B[16, 8] with rows [row, row + 16) and columns [column, column + 16).
template <int kRows, int kDims>
__device__ void load_b(const SharedRows<kRows, kDims>& from, int row, int column, Fragment& to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_matrices_transposed(&from.rows[row + lane % 16][column + lane / 16 * 8], to);
}

__device__ inline std::uint32_t round_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

// Two neighbouring C tiles as A.
__device__ inline void as_a(const float (&left)[4], const float (&right)[4], Fragment& to) {
  to[0] = round_pair(left[0], left[1]);
  to[1] = round_pair(left[2], left[3]);
  to[2] = round_pair(right[0], right[1]);
  to[3] = round_pair(right[2], right[3]);
}

// sums[16, kDims] += a[16, 16] times the rows [row, row + 16)
template <int kRows, int kDims>
__device__ void add_product(const Fragment& a, const SharedRows<kRows, kDims>& rows, int row,
                            float (&sums)[kDims / 8][4]) {
#pragma unroll
  for (int n = 0; n < kDims / 16; ++n) {
    Fragment b;
    load_b(rows, row, 16 * n, b);
    multiply(a, b[0], b[1], sums[2 * n]);
    multiply(a, b[2], b[3], sums[2 * n + 1]);
  }
}

// sums[16, 8 kTiles] += a[16, 16] times the transposed columns [column, column + 16) of rows from `row` on
template <int kRows, int kDims, int kTiles>
__device__ void add_product_with_rows(const Fragment& a, const SharedRows<kRows, kDims>& rows, int row,
                                      int column, float (&sums)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles / 2; ++n) {
    Fragment b;
    load_b_of_rows(rows, row + 16 * n, column, b);
    multiply(a, b[0], b[1], sums[2 * n]);
    multiply(a, b[2], b[3], sums[2 * n + 1]);
  }
}

// Row g + 8 half of C tiles, times a factor, to row `to` of a head.
template <int kTiles>
__device__ void store_row(const float (&tiles)[kTiles][4], int half, float factor,
                          const AttentionShape& shape, BFloat* to) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int column = 8 * n + 2 * t;
    if (column >= shape.head_dim) break;
    *reinterpret_cast<std::uint32_t*>(to + column) =
        round_pair(tiles[n][2 * half] * factor, tiles[n][2 * half + 1] * factor);
  }
}

}  // namespace tessera::cuda
