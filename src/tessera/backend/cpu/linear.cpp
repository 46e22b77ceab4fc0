// The kernels of linear, its two gradients and matmul: matrix products on the views.
#include "tessera/backend/cpu/gemm.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/ops/matmul.h"

namespace tessera::cpu {

// y[M, N] = x[M, K] weight[N, K]^T + bias
void linear(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &weight = call.inputs[1];
  const std::int64_t m = x.shape.num_rows(), k = weight.shape[1], n = weight.shape[0];
  for_dtype(x.dtype, [&]<class T>(T) {
    Gemm<T, T, T> product{.shape = {m, n, k},
                          .a = {x.as<T>().data(), k, false},
                          .b = {weight.as<T>().data(), k, true},
                          .c = {call.outputs[0].as<T>().data(), n, false}};
    if (call.inputs.size() == 3) product.bias = call.inputs[2].as<T>().data();
    gemm(context.pool, product, call.workspace);
  });
}

// dx[M, K] = dy[M, N] weight[N, K]
void linear_grad_input(const KernelCall& call, Context& context) {
  const TensorView &dy = call.inputs[0], &weight = call.inputs[1];
  const std::int64_t m = dy.shape.num_rows(), k = weight.shape[1], n = weight.shape[0];
  for_dtype(dy.dtype, [&]<class T>(T) {
    gemm(context.pool,
         Gemm<T, T, T>{.shape = {m, k, n},
                       .a = {dy.as<T>().data(), n, false},
                       .b = {weight.as<T>().data(), k, false},
                       .c = {call.outputs[0].as<T>().data(), k, false}},
         call.workspace);
  });
}

// accumulator[N, K] (+)= dy[M, N]^T x[M, K]
void linear_grad_weight(const KernelCall& call, Context& context) {
  const TensorView &dy = call.inputs[1], &x = call.inputs[2];
  const std::int64_t m = dy.shape.num_rows(), n = dy.shape[-1], k = x.shape[-1];
  const auto run = [&]<class T, class C>(T, C) {
    gemm(context.pool,
         Gemm<T, T, C>{.shape = {n, k, m},
                       .a = {dy.as<T>().data(), n, true},
                       .b = {x.as<T>().data(), k, false},
                       .c = {call.outputs[0].as<C>().data(), k, false},
                       .beta = call.starts_sums ? 0.0 : 1.0},
         call.workspace);
  };
  for_dtype(dy.dtype, [&]<class T>(T) {
    call.outputs[0].dtype == dy.dtype ? run(T{}, T{}) : run(T{}, Accumulate<T>{});
  });
}

// One product per matrix of the batch.
void matmul(const KernelCall& call, Context& context) {
  const TensorView &a = call.inputs[0], &b = call.inputs[1], &c = call.outputs[0];
  const auto& attrs = call.attrs->as<MatmulAttrs>();
  const std::int64_t m = c.shape[-2], n = c.shape[-1], k = attrs.transpose_a ? a.shape[-2] : a.shape[-1];
  for_dtype(a.dtype, [&]<class T>(T) {
    for (std::int64_t i = 0; i < c.num_elems() / (m * n); ++i) {
      gemm(context.pool,
           Gemm<T, T, T>{.shape = {m, n, k},
                         .a = {a.as<T>().data() + i * m * k, attrs.transpose_a ? m : k, attrs.transpose_a},
                         .b = {b.as<T>().data() + i * k * n, attrs.transpose_b ? k : n, attrs.transpose_b},
                         .c = {c.as<T>().data() + i * m * n, n, false}},
           call.workspace);
    }
  });
}

}  // namespace tessera::cpu
