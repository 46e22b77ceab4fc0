#include "tessera/backend/cuda/column_sums.h"
#include "tessera/backend/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

constexpr int kRowsAtOnce = 16, kPartsAtOnce = 32;

// Block (32, kRowsAtOnce): a strip of 32 W columns of part blockIdx.y of the rows. Writes sums[part, c], or
// with kAdd, on the only part, adds to them.
template <int W, bool kAdd, class T>
__global__ void sum_rows(const T* matrix, MatrixShape shape, std::int64_t rows_per_part, float* sums) {
  __shared__ float of_row[kRowsAtOnce][kWarp * W];
  const std::int64_t column = (std::int64_t{blockIdx.x} * kWarp + threadIdx.x) * W;
  const std::int64_t begin = blockIdx.y * rows_per_part, end = min(shape.rows, begin + rows_per_part);
  float sum[W] = {};
  if (column < shape.columns) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kRowsAtOnce) {
      float values[W];
      load<W>(matrix + row * shape.stride + column, values);
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += values[i];
    }
  }
#pragma unroll
  for (int i = 0; i < W; ++i) of_row[threadIdx.y][kWarp * i + threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0 || column >= shape.columns) return;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    float total = 0;
    for (int row = 0; row < kRowsAtOnce; ++row) total += of_row[row][kWarp * i + threadIdx.x];
    float& to = sums[blockIdx.y * shape.columns + column + i];
    to = kAdd ? to + total : total;
  }
}

// Block (32, kPartsAtOnce): 32 columns of all parts.
__global__ void sum_parts(const float* partial, std::int64_t parts, std::int64_t columns, float* first,
                          float* second, std::int64_t all_columns, bool starts) {
  __shared__ float of_row[kPartsAtOnce][kWarp];
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float sum = 0;
  if (column < all_columns) {
#pragma unroll 8
    for (std::int64_t part = threadIdx.y; part < parts; part += kPartsAtOnce)
      sum += partial[part * all_columns + column];
  }
  of_row[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= all_columns) return;
  float total = 0;
#pragma unroll
  for (int row = 0; row < kPartsAtOnce; ++row) total += of_row[row][threadIdx.x];
  float& to = column < columns ? first[column] : second[column - columns];
  to = starts ? total : to + total;
}

// As many blocks as run at once, if the rows allow it: three per multiprocessor, as sum_rows has 40 registers
// where it reads packs. (With 32 there would be four, but half as many loads under way.)
std::int64_t num_parts(MatrixShape shape) {
  constexpr std::int64_t kBlocks = 3 * kMultiprocessors, kMostParts = 256, kLeastRows = 2 * kRowsAtOnce;
  const std::int64_t strips = num_blocks(shape.columns, 8 * kWarp);
  const std::int64_t most = std::min<std::int64_t>(kMostParts, num_blocks(shape.rows, kLeastRows));
  return std::clamp<std::int64_t>(kBlocks / strips, 1, most);
}

template <bool kAdd, class T>
void launch(Context& context, const T* matrix, MatrixShape shape, std::int64_t parts, float* sums) {
  const std::int64_t rows_per_part = num_blocks(shape.rows, parts);
  if (shape.stride == 0) shape.stride = shape.columns;
  with_packs<T>(packs_fit<T>(shape.columns, matrix) && packs_fit<T>(shape.stride), [&]<class Width>(Width) {
    constexpr int W = Width::value;
    const dim3 grid(num_blocks(shape.columns, kWarp * W), static_cast<unsigned>(parts));
    sum_rows<W, kAdd>
        <<<grid, dim3(kWarp, kRowsAtOnce), 0, context.stream>>>(matrix, shape, rows_per_part, sums);
  });
}

}  // namespace

std::int64_t column_sums_workspace_bytes(MatrixShape shape) {
  return num_parts(shape) * shape.columns * static_cast<std::int64_t>(sizeof(float));
}

void add_column_sums(Context& context, DType dtype, const void* matrix, MatrixShape shape, SumsPlace sums,
                     std::span<std::byte> workspace) {
  const std::int64_t parts = num_parts(shape);
  for_dtype(dtype, [&]<class T>(T) {
    const auto* from = static_cast<const T*>(matrix);
    if (parts == 1) {
      return sums.starts ? launch<false>(context, from, shape, 1, sums.at)
                         : launch<true>(context, from, shape, 1, sums.at);
    }
    TS_ASSERT(static_cast<std::int64_t>(workspace.size()) >= column_sums_workspace_bytes(shape));
    auto* const partial = reinterpret_cast<float*>(workspace.data());
    launch<false>(context, from, shape, parts, partial);
    add_partial_sums(context, partial, {parts, shape.columns}, {&sums.at, 1}, sums.starts);
  });
}

void add_partial_sums(Context& context, const float* partial, MatrixShape shape, std::span<float* const> sums,
                      bool starts) {
  TS_ASSERT(sums.size() == 1 || sums.size() == 2);
  const std::int64_t all_columns = static_cast<std::int64_t>(sums.size()) * shape.columns;
  sum_parts<<<num_blocks(all_columns, kWarp), dim3(kWarp, kPartsAtOnce), 0, context.stream>>>(
      partial, shape.rows, shape.columns, sums.front(), sums.back(), all_columns, starts);
}

}  // namespace tessera::cuda
