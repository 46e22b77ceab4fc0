// softmax, softmax_grad, causal_mask.
#include "tessera/ops/softmax.h"

#include <limits>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/softmax_row.h"

namespace tessera::cpu {
namespace {

// dx = y (dy - sum(dy y)); dx may lie on dy.
template <class T>
void softmax_row_grad(const T* dy, const T* y, T* dx, std::int64_t columns) {
  using A = Accumulate<T>;
  A dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t c = 0; c < columns; ++c) dot += widen(dy[c]) * widen(y[c]);
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    put(dx[c], widen(y[c]) * (widen(dy[c]) - dot));
  }
}

}  // namespace

void softmax(const KernelCall& call, Context& context) {
  const Shape& shape = call.inputs[0].shape;
  const auto columns = static_cast<std::size_t>(shape.num_elems() / shape.num_rows());
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const std::span<const T> x = call.inputs[0].as<T>();
    const std::span<T> y = call.outputs[0].as<T>();
    for_each_row(context.pool, shape.num_rows(), static_cast<std::int64_t>(columns), [&](std::int64_t row) {
      const std::size_t at = static_cast<std::size_t>(row) * columns;
      const std::span<const T> from = x.subspan(at, columns);
      write_softmax(from, softmax_row(from), Accumulate<T>{1}, y.subspan(at, columns));
    });
  });
}

void softmax_grad(const KernelCall& call, Context& context) {
  const Shape& shape = call.inputs[0].shape;
  const std::int64_t columns = shape.num_elems() / shape.num_rows();
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* dy = call.inputs[0].as<T>().data();
    const T* y = call.inputs[1].as<T>().data();
    T* dx = call.outputs[0].as<T>().data();
    for_each_row(context.pool, shape.num_rows(), columns, [=](std::int64_t row) {
      softmax_row_grad(dy + row * columns, y + row * columns, dx + row * columns, columns);
    });
  });
}

void causal_mask(const KernelCall& call, Context& context) {
  const std::int64_t seq_len = call.outputs[0].shape[1];
  for_dtype(call.outputs[0].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    T* mask = call.outputs[0].as<T>().data();
    for_each_row(context.pool, seq_len, seq_len, [=](std::int64_t row) {
      T* to = mask + row * seq_len;
      std::fill(to, to + row + 1, static_cast<T>(A{0}));
      std::fill(to + row + 1, to + seq_len, static_cast<T>(-std::numeric_limits<A>::infinity()));
    });
  });
}

}  // namespace tessera::cpu
