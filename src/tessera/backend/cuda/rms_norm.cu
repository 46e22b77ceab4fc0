// rms_norm, rms_norm_grad.
//
// With r = 1 / sqrt(mean(x^2) + eps) and n = x r:   y = n w,   dw += sum over rows of dy n,
// dx = r (dy w - n mean(dy w n)).
#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/norm_rows.cuh"
#include "tessera/ops/rms_norm.h"

namespace tessera::cuda {
namespace {

// One block per row, which it reads twice: the second time from the first-level cache.
template <int W, class T>
__global__ void norm_rows(const T* x, const T* weight, T* y, float* inverse_rms, int columns, float eps) {
  const T* const from = x + std::int64_t{blockIdx.x} * columns;
  T* const to = y + std::int64_t{blockIdx.x} * columns;
  const int step = static_cast<int>(blockDim.x) * W;
  float squares = 0;
  for (int c = static_cast<int>(threadIdx.x) * W; c < columns; c += step) {
    float v[W];
    load<W>(from + c, v);
#pragma unroll
    for (int i = 0; i < W; ++i) squares += v[i] * v[i];
  }
  const float r = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(columns) + eps);
  if (threadIdx.x == 0) inverse_rms[blockIdx.x] = r;
  for (int c = static_cast<int>(threadIdx.x) * W; c < columns; c += step) {
    float v[W], w[W];
    load<W>(from + c, v);
    load<W>(weight + c, w);
#pragma unroll
    for (int i = 0; i < W; ++i) v[i] = v[i] * r * w[i];
    store<W>(to + c, v);
  }
}

// dx may lie on dy.
template <int W, class T>
__global__ void norm_rows_grad(const T* dy, const T* x, const T* weight, const float* inverse_rms, T* dx,
                               float* partial, MatrixShape shape) {
  extern __shared__ float shared[];
  SharedSums<W> sums(shared, shape.columns);
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const float r = inverse_rms[row];
    const std::int64_t at = row * shape.columns;
    float dot = 0;
    for (unsigned p = threadIdx.x; p < sums.packs; p += blockDim.x) {
      float d[W], v[W], w[W];
      load<W>(dy + at + p * W, d);
      load<W>(x + at + p * W, v);
      load<W>(weight + p * W, w);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float dy_normed = d[i] * (v[i] * r);
        sums.add(p, i, dy_normed);
        dot += dy_normed * w[i];
      }
    }
    const float mean = block_sum(dot) / static_cast<float>(shape.columns);
    for (unsigned p = threadIdx.x; p < sums.packs; p += blockDim.x) {
      float d[W], v[W], w[W];
      load<W>(dy + at + p * W, d);
      load<W>(x + at + p * W, v);
      load<W>(weight + p * W, w);
#pragma unroll
      for (int i = 0; i < W; ++i) d[i] = r * (d[i] * w[i] - v[i] * r * mean);
      store<W>(dx + at + p * W, d);
    }
  }
  sums.write(partial + blockIdx.x * shape.columns);
}

}  // namespace

void rms_norm(const KernelCall& call, Context& context) {
  const std::int64_t rows = call.inputs[0].shape.num_rows(), columns = call.inputs[0].shape[-1];
  const auto eps = static_cast<float>(call.attrs->as<RmsNormAttrs>().eps);
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T *x = data<T>(call.inputs[0]), *weight = data<T>(call.inputs[1]);
    T* y = data<T>(call.outputs[0]);
    with_packs<T>(packs_fit<T>(columns, x, weight, y), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      norm_rows<W><<<static_cast<unsigned>(rows), row_threads(columns, W), 0, context.stream>>>(
          x, weight, y, data<float>(call.outputs[1]), static_cast<int>(columns), eps);
    });
  });
}

std::int64_t rms_norm_grad_workspace_bytes(const Graph& graph, const Node& node) {
  const Shape& dy = graph.type(node.inputs[0]).shape;
  return norm_grad_workspace_bytes({dy.num_rows(), dy[-1]}, 1);
}

void rms_norm_grad(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[4].data == call.outputs[1].data);
  const MatrixShape shape{call.inputs[0].shape.num_rows(), call.inputs[0].shape[-1]};
  const std::int64_t parts = norm_parts(shape);
  auto* const partial = workspace_at<float>(call, 0, parts * shape.columns);
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T *dy = data<T>(call.inputs[0]), *x = data<T>(call.inputs[1]), *weight = data<T>(call.inputs[2]);
    T* dx = data<T>(call.outputs[0]);
    with_packs<T>(packs_fit<T>(shape.columns, dy, x, weight, dx), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      const auto shared_bytes = static_cast<std::size_t>(shape.columns) * sizeof(float);
      allow_shared_bytes(norm_rows_grad<W, T>, shared_bytes);
      norm_rows_grad<W>
          <<<static_cast<unsigned>(parts), row_threads(shape.columns, W, kNormGradThreads), shared_bytes,
             context.stream>>>(dy, x, weight, data<float>(call.inputs[3]), dx, partial, shape);
    });
  });
  const auto used = static_cast<std::size_t>(parts * shape.columns) * sizeof(float);
  add_column_sums(context, DType::f32, partial, {parts, shape.columns}, data<float>(call.outputs[1]),
                  call.workspace.subspan(used));
}

}  // namespace tessera::cuda
