// layer_norm, layer_norm_grad.
//
// With d = 1 / sqrt(variance + eps) and n = (x - mean) d:   y = n w + b,   dw += sum over rows of dy n,
// db += sum over rows of dy,   dx = d (dy w - mean(dy w) - n mean(dy w n)).
#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/norm_rows.cuh"
#include "tessera/ops/layer_norm.h"

namespace tessera::cuda {
namespace {

// One block per row. The variance comes from the differences to the mean: the mean of the squares minus the
// square of the mean would cancel in rows with a large mean.
template <int W, class T>
__global__ void norm_rows(const T* x, const T* weight, const T* bias, T* y, float* means,
                          float* inverse_deviations, int columns, float eps) {
  const T* const from = x + std::int64_t{blockIdx.x} * columns;
  T* const to = y + std::int64_t{blockIdx.x} * columns;
  const int first = static_cast<int>(threadIdx.x) * W, step = static_cast<int>(blockDim.x) * W;
  float v[W], sum = 0, squares = 0;
  for (int c = first; c < columns; c += step) {
    load<W>(from + c, v);
#pragma unroll
    for (int i = 0; i < W; ++i) sum += v[i];
  }
  const float mean = block_sum(sum) / static_cast<float>(columns);
  for (int c = first; c < columns; c += step) {
    load<W>(from + c, v);
#pragma unroll
    for (int i = 0; i < W; ++i) squares += (v[i] - mean) * (v[i] - mean);
  }
  const float inverse = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(columns) + eps);
  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    inverse_deviations[blockIdx.x] = inverse;
  }
  for (int c = first; c < columns; c += step) {
    float w[W], b[W];
    load<W>(from + c, v);
    load<W>(weight + c, w);
    load<W>(bias + c, b);
#pragma unroll
    for (int i = 0; i < W; ++i) v[i] = (v[i] - mean) * inverse * w[i] + b[i];
    store<W>(to + c, v);
  }
}

struct RowSums {
  float grad, dot;
};

// dx may lie on dy.
template <int W, class T>
__global__ void norm_rows_grad(const T* dy, const T* x, const T* weight, const float* means,
                               const float* inverse_deviations, T* dx, float* weight_partial,
                               float* bias_partial, MatrixShape shape) {
  extern __shared__ float shared[];
  SharedSums<W> weight_sums(shared, shape.columns), bias_sums(shared + shape.columns, shape.columns);
  const unsigned packs = weight_sums.packs;
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const float mean = means[row], inverse = inverse_deviations[row];
    const std::int64_t at = row * shape.columns;
    float d[W], v[W], w[W];
    RowSums sums{0, 0};
    for (unsigned p = threadIdx.x; p < packs; p += blockDim.x) {
      load<W>(dy + at + p * W, d);
      load<W>(x + at + p * W, v);
      load<W>(weight + p * W, w);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float normed = (v[i] - mean) * inverse;
        weight_sums.add(p, i, d[i] * normed);
        bias_sums.add(p, i, d[i]);
        sums.grad += d[i] * w[i];
        sums.dot += d[i] * w[i] * normed;
      }
    }
    const float mean_grad = block_sum(sums.grad) / static_cast<float>(shape.columns);
    const float mean_dot = block_sum(sums.dot) / static_cast<float>(shape.columns);
    for (unsigned p = threadIdx.x; p < packs; p += blockDim.x) {
      load<W>(dy + at + p * W, d);
      load<W>(x + at + p * W, v);
      load<W>(weight + p * W, w);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float normed = (v[i] - mean) * inverse;
        d[i] = inverse * (d[i] * w[i] - mean_grad - normed * mean_dot);
      }
      store<W>(dx + at + p * W, d);
    }
  }
  weight_sums.write(weight_partial + blockIdx.x * shape.columns);
  bias_sums.write(bias_partial + blockIdx.x * shape.columns);
}

}  // namespace

void layer_norm(const KernelCall& call, Context& context) {
  const std::int64_t rows = call.inputs[0].shape.num_rows(), columns = call.inputs[0].shape[-1];
  const auto eps = static_cast<float>(call.attrs->as<LayerNormAttrs>().eps);
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T *x = data<T>(call.inputs[0]), *weight = data<T>(call.inputs[1]), *bias = data<T>(call.inputs[2]);
    T* y = data<T>(call.outputs[0]);
    with_packs<T>(packs_fit<T>(columns, x, weight, bias, y), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      norm_rows<W><<<static_cast<unsigned>(rows), row_threads(columns, W), 0, context.stream>>>(
          x, weight, bias, y, data<float>(call.outputs[1]), data<float>(call.outputs[2]),
          static_cast<int>(columns), eps);
    });
  });
}

std::int64_t layer_norm_grad_workspace_bytes(const Graph& graph, const Node& node) {
  const Shape& dy = graph.type(node.inputs[0]).shape;
  return norm_grad_workspace_bytes({dy.num_rows(), dy[-1]}, 2);
}

void layer_norm_grad(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[5].data == call.outputs[1].data && call.inputs[6].data == call.outputs[2].data);
  const MatrixShape shape{call.inputs[0].shape.num_rows(), call.inputs[0].shape[-1]};
  const std::int64_t parts = norm_parts(shape), partial_elems = parts * shape.columns;
  auto* const weight_partial = workspace_at<float>(call, 0, 2 * partial_elems);
  float* const bias_partial = weight_partial + partial_elems;
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T *dy = data<T>(call.inputs[0]), *x = data<T>(call.inputs[1]), *weight = data<T>(call.inputs[2]);
    T* dx = data<T>(call.outputs[0]);
    with_packs<T>(packs_fit<T>(shape.columns, dy, x, weight, dx), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      const auto shared_bytes = static_cast<std::size_t>(2 * shape.columns) * sizeof(float);
      allow_shared_bytes(norm_rows_grad<W, T>, shared_bytes);
      norm_rows_grad<W><<<static_cast<unsigned>(parts), row_threads(shape.columns, W, kNormGradThreads),
                          shared_bytes, context.stream>>>(dy, x, weight, data<float>(call.inputs[3]),
                                                          data<float>(call.inputs[4]), dx, weight_partial,
                                                          bias_partial, shape);
    });
  });
  const auto rest = call.workspace.subspan(static_cast<std::size_t>(2 * partial_elems) * sizeof(float));
  const MatrixShape partial{parts, shape.columns};
  add_column_sums(context, DType::f32, weight_partial, partial, data<float>(call.outputs[1]), rest);
  add_column_sums(context, DType::f32, bias_partial, partial, data<float>(call.outputs[2]), rest);
}

}  // namespace tessera::cuda
