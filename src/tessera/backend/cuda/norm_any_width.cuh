// rms_norm, layer_norm and their gradients on rows of any width, element by element: for rows that are no
// whole packs or too wide for norm_rows.cuh. A block per row reads it again for every pass; the sums for the
// weights are a kernel of their own, which runs first, since dx may lie on dy.
#pragma once

#include "tessera/backend/cuda/norm_rows.cuh"

namespace tessera::cuda {

template <class T>
struct NormColumns {
  const T* x;
  const T* weight;
  const T* bias;  // rms: none
  int columns;
};

// Calls f(column) for the columns of a thread.
template <class F>
__device__ void for_own_columns(int columns, F&& f) {
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += static_cast<int>(blockDim.x)) f(c);
}

template <Norm kNorm, class T>
__global__ void normalize_any_rows(NormColumns<T> o, T* y, float* means, float* inverses, float eps) {
  const std::int64_t row = blockIdx.x;
  const T* const x = o.x + row * o.columns;
  float mean = 0, squares = 0;
  if constexpr (kNorm == Norm::layer) {
    float sum = 0;
    for_own_columns(o.columns, [&](int c) { sum += widen(x[c]); });
    mean = block_sum(sum) / static_cast<float>(o.columns);
  }
  for_own_columns(o.columns, [&](int c) {
    const float centred = widen(x[c]) - mean;
    squares = fmaf(centred, centred, squares);
  });
  const float inverse = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(o.columns) + eps);
  if (threadIdx.x == 0) {
    if constexpr (kNorm == Norm::layer) means[row] = mean;
    inverses[row] = inverse;
  }
  for_own_columns(o.columns, [&](int c) {
    const float bias = kNorm == Norm::layer ? widen(o.bias[c]) : 0.0f;
    const float normed = (widen(x[c]) - mean) * inverse;
    y[row * o.columns + c] = narrow<T>(affine<kNorm>(normed, widen(o.weight[c]), bias));
  });
}

// Statistics of the rows, from the forward pass. rms: no means.
struct RowStatistics {
  const float* means;
  const float* inverses;
};

// partial[part, 0, c] = sum of dy n over the rows of part blockIdx.y, partial[part, 1, c] that of dy.
template <Norm kNorm, class T>
__global__ void sum_any_columns(const T* dy, const T* x, RowStatistics of_row, MatrixShape shape,
                                std::int64_t rows_per_part, float* partial) {
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= shape.columns) return;
  const std::int64_t begin = blockIdx.y * rows_per_part, end = min(shape.rows, begin + rows_per_part);
  float weight_sum = 0, bias_sum = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const float d = widen(dy[row * shape.columns + c]);
    const float mean = kNorm == Norm::layer ? of_row.means[row] : 0.0f;
    weight_sum = fmaf(d, (widen(x[row * shape.columns + c]) - mean) * of_row.inverses[row], weight_sum);
    bias_sum += d;
  }
  float* const to = partial + blockIdx.y * kNormSums<kNorm> * shape.columns + c;
  to[0] = weight_sum;
  if constexpr (kNorm == Norm::layer) to[shape.columns] = bias_sum;
}

template <Norm kNorm, class T>
__global__ void grad_of_any_rows(const T* dy, NormColumns<T> o, RowStatistics of_row, T* dx) {
  const std::int64_t row = blockIdx.x, begin = row * o.columns;
  const float mean = kNorm == Norm::layer ? of_row.means[row] : 0.0f, inverse = of_row.inverses[row];
  float grad = 0, dot = 0;
  for_own_columns(o.columns, [&](int c) {
    const float weighted = widen(dy[begin + c]) * widen(o.weight[c]);
    grad += weighted;
    dot = fmaf(weighted, (widen(o.x[begin + c]) - mean) * inverse, dot);
  });
  const float mean_grad = kNorm == Norm::layer ? block_sum(grad) / static_cast<float>(o.columns) : 0.0f;
  const float mean_dot = block_sum(dot) / static_cast<float>(o.columns);
  for_own_columns(o.columns, [&](int c) {
    const float weighted = widen(dy[begin + c]) * widen(o.weight[c]);
    const float normed = (widen(o.x[begin + c]) - mean) * inverse;
    dx[begin + c] = narrow<T>(inverse * fmaf(-normed, mean_dot, weighted - mean_grad));
  });
}

}  // namespace tessera::cuda
