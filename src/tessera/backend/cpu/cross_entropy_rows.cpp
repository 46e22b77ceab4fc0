// softmax_cross_entropy, softmax_cross_entropy_grad, and the row they are made of.
#include "tessera/backend/cpu/cross_entropy_rows.h"

#include <cmath>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/softmax_row.h"
#include "tessera/backend/cpu/vector_math.h"

namespace tessera::cpu {
namespace {

template <class T>
double row_loss(std::span<const T> logits, std::int32_t target, const SoftmaxRow<Accumulate<T>>& row) {
  TS_ASSERT(target < static_cast<std::int64_t>(logits.size()));
  const double shifted = static_cast<double>(row.max) - widen(logits[target]);
  return std::log(static_cast<double>(row.sum)) + shifted;
}

template <class T>
std::span<T> row_of(std::span<T> matrix, std::int64_t row, std::int64_t columns) {
  return matrix.subspan(static_cast<std::size_t>(row * columns), static_cast<std::size_t>(columns));
}

}  // namespace

template <class T>
double cross_entropy_row(std::span<const T> logits, std::int32_t target) {
  return target < 0 ? 0.0 : row_loss(logits, target, softmax_row(logits));
}

template <class T>
double cross_entropy_row_grad(std::span<const T> logits, std::int32_t target, Accumulate<T> scale,
                              std::span<T> grad) {
  using A = Accumulate<T>;
  if (target < 0) {
    std::fill(grad.begin(), grad.end(), static_cast<T>(A{0}));
    return 0.0;
  }
  const SoftmaxRow<A> row = softmax_row(logits);
  const double loss = row_loss(logits, target, row);
  const A target_logit = widen(logits[target]);
  write_softmax(logits, row, scale, grad);
  put(grad[target], (exp(target_logit - row.max) / row.sum - A{1}) * scale);
  return loss;
}

template double cross_entropy_row(std::span<const float>, std::int32_t);
template double cross_entropy_row(std::span<const Bf16>, std::int32_t);
template double cross_entropy_row(std::span<const double>, std::int32_t);
template double cross_entropy_row_grad(std::span<const float>, std::int32_t, float, std::span<float>);
template double cross_entropy_row_grad(std::span<const Bf16>, std::int32_t, float, std::span<Bf16>);
template double cross_entropy_row_grad(std::span<const double>, std::int32_t, double, std::span<double>);

// The loss adds up in double, block after block of rows.
void softmax_cross_entropy(const KernelCall& call, Context& context) {
  const TensorView& logits = call.inputs[0];
  const auto targets = call.inputs[1].as<std::int32_t>();
  const std::int64_t num_rows = logits.shape.num_rows(), columns = logits.shape[-1];
  for_dtype(logits.dtype, [&]<class T>(T) {
    const std::span<const T> x = logits.as<T>();
    const auto block_loss = [&](std::int64_t begin, std::int64_t end) {
      double loss = 0;
      for (std::int64_t r = begin; r < end; ++r) loss += cross_entropy_row(row_of(x, r, columns), targets[r]);
      return loss;
    };
    const double loss = sum_over_blocks(context.pool, num_rows, rows_per_task(columns), block_loss);
    const auto scale = static_cast<double>(call.inputs[2].as<Accumulate<T>>()[0]);
    call.outputs[0].as<Accumulate<T>>()[0] = static_cast<Accumulate<T>>(loss * scale);
  });
}

void softmax_cross_entropy_grad(const KernelCall& call, Context& context) {
  const TensorView& logits = call.inputs[0];
  const auto targets = call.inputs[1].as<std::int32_t>();
  const std::int64_t num_rows = logits.shape.num_rows(), columns = logits.shape[-1];
  for_dtype(logits.dtype, [&]<class T>(T) {
    const std::span<const T> x = logits.as<T>();
    const std::span<T> grad = call.outputs[0].as<T>();
    const Accumulate<T> scale = call.inputs[2].as<Accumulate<T>>()[0];
    for_each_row(context.pool, num_rows, columns, [&](std::int64_t r) {
      cross_entropy_row_grad(row_of(x, r, columns), targets[r], scale, row_of(grad, r, columns));
    });
  });
}

}  // namespace tessera::cpu
