#include "tessera/backend/cuda/element.cuh"
#include "tessera/backend/cuda/gemm.h"
#include "tessera/backend/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

constexpr int kTile = 16;

// Element (i, j) of an operand is data[i * row + j * column].
template <class T>
struct Strided {
  const T* data;
  std::int64_t row, column, batch;
};

template <class T, class C>
__global__ void multiply_plain_tiles(Strided<T> a, Strided<T> b, const T* bias, C* c, std::int64_t ldc,
                                     std::int64_t c_batch, std::int64_t m, std::int64_t n, std::int64_t k,
                                     bool accumulate) {
  __shared__ float a_tile[kTile][kTile + 1], b_tile[kTile][kTile + 1];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const std::int64_t tiles_of_row = (n + kTile - 1) / kTile;
  const std::int64_t row = blockIdx.x / tiles_of_row * kTile + ty,
                     column = blockIdx.x % tiles_of_row * kTile + tx;
  a.data += blockIdx.z * a.batch;
  b.data += blockIdx.z * b.batch;
  c += blockIdx.z * c_batch;
  float sum = 0;
  for (std::int64_t k0 = 0; k0 < k; k0 += kTile) {
    a_tile[ty][tx] = row < m && k0 + tx < k ? widen(a.data[row * a.row + (k0 + tx) * a.column]) : 0.0f;
    b_tile[ty][tx] = k0 + ty < k && column < n ? widen(b.data[(k0 + ty) * b.row + column * b.column]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum += a_tile[ty][i] * b_tile[i][tx];
    __syncthreads();
  }
  if (row >= m || column >= n) return;
  if (bias != nullptr) sum += widen(bias[column]);
  if (accumulate) sum += widen(c[row * ldc + column]);
  c[row * ldc + column] = narrow<C>(sum);
}

template <class T>
Strided<T> strided(const Operand& operand) {
  return {static_cast<const T*>(operand.data), operand.transposed ? 1 : operand.ld,
          operand.transposed ? operand.ld : 1, operand.batch_stride};
}

}  // namespace

void plain_gemm(const Product& p, cudaStream_t stream) {
  // Of rows, which may be tokens, and of columns there may be more than a grid counts in y.
  const dim3 grid(num_blocks(p.m, kTile) * num_blocks(p.n, kTile), 1, static_cast<unsigned>(p.batch));
  for_dtype(p.dtype, [&]<class T>(T) {
    for_dtype(p.c_dtype, [&]<class C>(C) {
      multiply_plain_tiles<<<grid, dim3(kTile, kTile), 0, stream>>>(
          strided<T>(p.a), strided<T>(p.b), static_cast<const T*>(p.bias), static_cast<C*>(p.c), p.ldc,
          p.c_batch_stride, p.m, p.n, p.k, p.accumulate);
    });
  });
}

}  // namespace tessera::cuda
