// rms_norm, rms_norm_grad.
//
// With r = 1 / sqrt(mean(x^2) + eps) and n = x r:   y = n w,   dw += sum over rows of dy n,
// dx = r (dy w - n mean(dy w n)).
#include "tessera/ops/rms_norm.h"

#include <cmath>

#include "tessera/backend/cpu/column_sums.h"
#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/kernel_workspace.h"
#include "tessera/backend/cpu/loop_blocks.h"

namespace tessera::cpu {
namespace {

// Returns 1/rms.
template <class T>
Accumulate<T> norm_row(const T* x, const T* weight, T* y, std::int64_t columns, double eps) {
  using A = Accumulate<T>;
  A squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < columns; ++c) squares += widen(x[c]) * widen(x[c]);
  const A inverse_rms = A{1} / std::sqrt(squares / static_cast<A>(columns) + static_cast<A>(eps));
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    put(y[c], widen(x[c]) * inverse_rms * widen(weight[c]));
  }
  return inverse_rms;
}

// dx may lie on dy.
template <class T>
void norm_row_grad(const T* dy, const T* x, const T* weight, Accumulate<T> inverse_rms, T* dx,
                   Accumulate<T>* dweight, std::int64_t columns) {
  using A = Accumulate<T>;
  A dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t c = 0; c < columns; ++c) {
    const A dy_normed = widen(dy[c]) * (widen(x[c]) * inverse_rms);
    dweight[c] += dy_normed;
    dot += dy_normed * widen(weight[c]);
  }
  const A mean = dot / static_cast<A>(columns);
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    const A normed = widen(x[c]) * inverse_rms;
    put(dx[c], inverse_rms * (widen(dy[c]) * widen(weight[c]) - normed * mean));
  }
}

}  // namespace

void rms_norm(const KernelCall& call, Context& context) {
  const std::int64_t num_rows = call.inputs[0].shape.num_rows(), columns = call.inputs[0].shape[-1];
  const double eps = call.attrs->as<RmsNormAttrs>().eps;
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* x = call.inputs[0].as<T>().data();
    const T* weight = call.inputs[1].as<T>().data();
    T* y = call.outputs[0].as<T>().data();
    Accumulate<T>* inverse_rms = call.outputs[1].as<Accumulate<T>>().data();
    for_each_row(context.pool, num_rows, columns, [=](std::int64_t r) {
      inverse_rms[r] = norm_row(x + r * columns, weight, y + r * columns, columns, eps);
    });
  });
}

std::int64_t rms_norm_grad_workspace_bytes(const Graph& graph, const Node& node) {
  const ValueType& dy = graph.type(node.inputs[0]);
  const std::int64_t columns = dy.shape[-1];
  return row_parts(dy.shape.num_rows(), columns).num_parts() * columns *
         dtype_bytes(accumulate_dtype(dy.dtype));
}

void rms_norm_grad(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[4].data == call.outputs[1].data);
  const std::int64_t columns = call.inputs[0].shape[-1];
  const RowParts parts = row_parts(call.inputs[0].shape.num_rows(), columns);
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    const T* dy = call.inputs[0].as<T>().data();
    const T* x = call.inputs[1].as<T>().data();
    const T* weight = call.inputs[2].as<T>().data();
    const A* inverse_rms = call.inputs[3].as<A>().data();
    T* dx = call.outputs[0].as<T>().data();
    const std::span<A> partial_sums = workspace_as<A>(call, parts.num_parts() * columns);
    for_each_block(context.pool, parts.num_rows, parts.rows_per_part,
                   [=](std::int64_t begin, std::int64_t end) {
                     A* dweight = partial_sums.data() + begin / parts.rows_per_part * columns;
                     std::fill(dweight, dweight + columns, A{0});
                     for (std::int64_t r = begin; r < end; ++r) {
                       norm_row_grad(dy + r * columns, x + r * columns, weight, inverse_rms[r],
                                     dx + r * columns, dweight, columns);
                     }
                   });
    add_column_sums<A>(context.pool, partial_sums, call.outputs[1].as<A>());
  });
}

}  // namespace tessera::cpu
