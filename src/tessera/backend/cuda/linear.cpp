// The kernels of linear, its two gradients and matmul: matrix products on the views.
#include "tessera/backend/cuda/linear.h"

#include "tessera/ops/matmul.h"

namespace tessera::cuda {

// y[M, N] = x[M, K] weight[N, K]^T + bias
Product linear_product(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &weight = call.inputs[1];
  const std::int64_t m = x.shape.num_rows(), k = weight.shape[1], n = weight.shape[0];
  Product product{.m = m,
                  .n = n,
                  .k = k,
                  .dtype = x.dtype,
                  .c_dtype = x.dtype,
                  .a = {x.data, k, false},
                  .b = {weight.data, k, true},
                  .c = call.outputs[0].data,
                  .ldc = n};
  if (call.inputs.size() == 3) {
    product.epilogue = Epilogue::bias;
    product.bias = call.inputs[2].data;
  }
  return product;
}

// dx[M, K] = dy[M, N] weight[N, K]
Product linear_grad_input_product(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &weight = call.inputs[1];
  const std::int64_t m = dy.shape.num_rows(), k = weight.shape[1], n = weight.shape[0];
  return {.m = m,
          .n = k,
          .k = n,
          .dtype = dy.dtype,
          .c_dtype = dy.dtype,
          .a = {dy.data, n, false},
          .b = {weight.data, k, false},
          .c = call.outputs[0].data,
          .ldc = k};
}

// accumulator[N, K] (+)= dy[M, N]^T x[M, K]
Product linear_grad_weight_product(const KernelCall& call) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  const TensorView &dy = call.inputs[1], &x = call.inputs[2];
  const std::int64_t m = dy.shape.num_rows(), n = dy.shape[-1], k = x.shape[-1];
  return {.m = n,
          .n = k,
          .k = m,
          .dtype = dy.dtype,
          .c_dtype = call.outputs[0].dtype,
          .a = {dy.data, n, true},
          .b = {x.data, k, false},
          .c = call.outputs[0].data,
          .ldc = k,
          .accumulate = !call.starts_sums};
}

void linear(const KernelCall& call, Context& context) {
  context.gemms.run(linear_product(call), context.stream, call.workspace);
}
void linear_grad_input(const KernelCall& call, Context& context) {
  context.gemms.run(linear_grad_input_product(call), context.stream, call.workspace);
}
void linear_grad_weight(const KernelCall& call, Context& context) {
  context.gemms.run(linear_grad_weight_product(call), context.stream, call.workspace);
}

// One product per matrix of the batch.
void matmul(const KernelCall& call, Context& context) {
  const TensorView &a = call.inputs[0], &b = call.inputs[1], &c = call.outputs[0];
  const auto& attrs = call.attrs->as<MatmulAttrs>();
  const std::int64_t m = c.shape[-2], n = c.shape[-1], k = attrs.transpose_a ? a.shape[-2] : a.shape[-1];
  context.gemms.run({.m = m,
                     .n = n,
                     .k = k,
                     .dtype = a.dtype,
                     .c_dtype = a.dtype,
                     .a = {a.data, attrs.transpose_a ? m : k, attrs.transpose_a, m * k},
                     .b = {b.data, attrs.transpose_b ? k : n, attrs.transpose_b, k * n},
                     .c = c.data,
                     .ldc = n,
                     .c_batch_stride = m * n,
                     .batch = c.num_elems() / (m * n)},
                    context.stream, call.workspace);
}

}  // namespace tessera::cuda
