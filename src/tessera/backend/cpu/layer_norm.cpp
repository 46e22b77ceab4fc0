// layer_norm, layer_norm_grad.
//
// With d = 1 / sqrt(variance + eps) and n = (x - mean) d:   y = n w + b,   dw += sum over rows of dy n,
// db += sum over rows of dy,   dx = d (dy w - mean(dy w) - n mean(dy w n)).
#include "tessera/ops/layer_norm.h"

#include <cmath>

#include "tessera/backend/cpu/column_sums.h"
#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/kernel_workspace.h"
#include "tessera/backend/cpu/loop_blocks.h"

namespace tessera::cpu {
namespace {

template <class A>
struct RowStatistics {
  A mean, inverse_deviation;
};

// The variance from the differences to the mean: the mean of the squares minus the square of the mean
// would cancel in rows with a large mean.
template <class T>
RowStatistics<Accumulate<T>> row_statistics(const T* x, std::int64_t columns, double eps) {
  using A = Accumulate<T>;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < columns; ++c) sum += widen(x[c]);
  const A mean = sum / static_cast<A>(columns);
  A squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < columns; ++c) {
    const A centred = widen(x[c]) - mean;
    squares += centred * centred;
  }
  return {mean, A{1} / std::sqrt(squares / static_cast<A>(columns) + static_cast<A>(eps))};
}

// What the rows of one part add to the gradients of weight and bias.
template <class A>
struct PartialSums {
  A* weight;
  A* bias;
};

// dx may lie on dy.
template <class T>
void norm_row_grad(const T* dy, const T* x, const T* weight, RowStatistics<Accumulate<T>> row, T* dx,
                   PartialSums<Accumulate<T>> sums, std::int64_t columns) {
  using A = Accumulate<T>;
  A sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
  for (std::int64_t c = 0; c < columns; ++c) {
    const A normed = (widen(x[c]) - row.mean) * row.inverse_deviation;
    const A dnormed = widen(dy[c]) * widen(weight[c]);
    sums.weight[c] += widen(dy[c]) * normed;
    sums.bias[c] += widen(dy[c]);
    sum += dnormed;
    dot += dnormed * normed;
  }
  const A mean_grad = sum / static_cast<A>(columns), mean_dot = dot / static_cast<A>(columns);
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    const A normed = (widen(x[c]) - row.mean) * row.inverse_deviation;
    const A dnormed = widen(dy[c]) * widen(weight[c]);
    put(dx[c], row.inverse_deviation * (dnormed - mean_grad - normed * mean_dot));
  }
}

}  // namespace

void layer_norm(const KernelCall& call, Context& context) {
  const std::int64_t num_rows = call.inputs[0].shape.num_rows(), columns = call.inputs[0].shape[-1];
  const double eps = call.attrs->as<LayerNormAttrs>().eps;
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    const T* x = call.inputs[0].as<T>().data();
    const T* weight = call.inputs[1].as<T>().data();
    const T* bias = call.inputs[2].as<T>().data();
    T* y = call.outputs[0].as<T>().data();
    A* mean = call.outputs[1].as<A>().data();
    A* inverse_deviation = call.outputs[2].as<A>().data();
    for_each_row(context.pool, num_rows, columns, [=](std::int64_t r) {
      const T* from = x + r * columns;
      T* to = y + r * columns;
      const RowStatistics<A> row = row_statistics(from, columns, eps);
      mean[r] = row.mean;
      inverse_deviation[r] = row.inverse_deviation;
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) {
        const A normed = (widen(from[c]) - row.mean) * row.inverse_deviation;
        put(to[c], normed * widen(weight[c]) + widen(bias[c]));
      }
    });
  });
}

std::int64_t layer_norm_grad_workspace_bytes(const Graph& graph, const Node& node) {
  const ValueType& dy = graph.type(node.inputs[0]);
  const std::int64_t columns = dy.shape[-1], num_parts = row_parts(dy.shape.num_rows(), columns).num_parts();
  return 2 * num_parts * columns * dtype_bytes(accumulate_dtype(dy.dtype));
}

void layer_norm_grad(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[5].data == call.outputs[1].data && call.inputs[6].data == call.outputs[2].data);
  const std::int64_t columns = call.inputs[0].shape[-1];
  const RowParts parts = row_parts(call.inputs[0].shape.num_rows(), columns);
  const std::int64_t sums_size = parts.num_parts() * columns;
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    const T* dy = call.inputs[0].as<T>().data();
    const T* x = call.inputs[1].as<T>().data();
    const T* weight = call.inputs[2].as<T>().data();
    const A* mean = call.inputs[3].as<A>().data();
    const A* inverse_deviation = call.inputs[4].as<A>().data();
    T* dx = call.outputs[0].as<T>().data();
    const std::span<A> partial_sums = workspace_as<A>(call, 2 * sums_size);
    const auto weight_sums = partial_sums.first(static_cast<std::size_t>(sums_size));
    const auto bias_sums = partial_sums.last(static_cast<std::size_t>(sums_size));
    for_each_block(context.pool, parts.num_rows, parts.rows_per_part,
                   [=](std::int64_t begin, std::int64_t end) {
                     const std::int64_t sums_at = begin / parts.rows_per_part * columns;
                     const PartialSums<A> sums{weight_sums.data() + sums_at, bias_sums.data() + sums_at};
                     std::fill(sums.weight, sums.weight + columns, A{0});
                     std::fill(sums.bias, sums.bias + columns, A{0});
                     for (std::int64_t r = begin; r < end; ++r) {
                       norm_row_grad(dy + r * columns, x + r * columns, weight,
                                     {mean[r], inverse_deviation[r]}, dx + r * columns, sums, columns);
                     }
                   });
    add_column_sums<A>(context.pool, weight_sums, call.outputs[1].as<A>());
    add_column_sums<A>(context.pool, bias_sums, call.outputs[2].as<A>());
  });
}

}  // namespace tessera::cpu
