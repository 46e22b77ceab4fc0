// softmax, softmax_grad, causal_mask.
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/softmax_rows.cuh"
#include "tessera/ops/softmax.h"

namespace tessera::cuda {
namespace {

template <int W, class T>
__global__ void softmax_of_rows(const T* x, T* y, std::int64_t columns) {
  const std::int64_t at = blockIdx.x * columns;
  write_softmax<W>(x + at, summarize_row<W>(x + at, columns), 1.0f, y + at, columns);
}

// dx = y (dy - sum(dy y)); dx may lie on dy.
template <int W, class T>
__global__ void softmax_grad_of_rows(const T* dy, const T* y, T* dx, std::int64_t columns) {
  const std::int64_t at = blockIdx.x * columns;
  float dot = 0;
  for_each_own_pack<W>(columns, [&](std::int64_t c, auto width) {
    float d[width.value], v[width.value];
    load<width.value>(dy + at + c, d);
    load<width.value>(y + at + c, v);
#pragma unroll
    for (int i = 0; i < width.value; ++i) dot += d[i] * v[i];
  });
  dot = block_sum(dot);
  for_each_own_pack<W>(columns, [&](std::int64_t c, auto width) {
    float d[width.value], v[width.value];
    load<width.value>(dy + at + c, d);
    load<width.value>(y + at + c, v);
#pragma unroll
    for (int i = 0; i < width.value; ++i) d[i] = v[i] * (d[i] - dot);
    store<width.value>(dx + at + c, d);
  });
}

template <class T>
__global__ void mask_above_diagonal(T* mask, std::int64_t seq_len) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= seq_len * seq_len) return;
  mask[at] = narrow<T>(at % seq_len <= at / seq_len ? 0.0f : -CUDART_INF_F);
}

}  // namespace

void softmax(const KernelCall& call, Context& context) {
  const Shape& shape = call.inputs[0].shape;
  const std::int64_t rows = shape.num_rows(), columns = shape.num_elems() / rows;
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* x = data<T>(call.inputs[0]);
    T* y = data<T>(call.outputs[0]);
    with_packs<T>(packs_fit<T>(columns, x, y), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      softmax_of_rows<W>
          <<<static_cast<unsigned>(rows), row_threads(columns, W), 0, context.stream>>>(x, y, columns);
    });
  });
}

void softmax_grad(const KernelCall& call, Context& context) {
  const Shape& shape = call.inputs[0].shape;
  const std::int64_t rows = shape.num_rows(), columns = shape.num_elems() / rows;
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T *dy = data<T>(call.inputs[0]), *y = data<T>(call.inputs[1]);
    T* dx = data<T>(call.outputs[0]);
    with_packs<T>(packs_fit<T>(columns, dy, y, dx), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      softmax_grad_of_rows<W>
          <<<static_cast<unsigned>(rows), row_threads(columns, W), 0, context.stream>>>(dy, y, dx, columns);
    });
  });
}

void causal_mask(const KernelCall& call, Context& context) {
  const std::int64_t seq_len = call.outputs[0].shape[1];
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    mask_above_diagonal<<<num_blocks(seq_len * seq_len, kThreads), kThreads, 0, context.stream>>>(
        data<T>(call.outputs[0]), seq_len);
  });
}

}  // namespace tessera::cuda
