// The softmax of one row: softmax(x)[c] = exp(x[c] - max) / sum. Used by softmax and cross_entropy_rows.
//
// The exponential is taken again when the row is written: kept between the passes it would be rounded
// twice in Bf16, and it costs no more than loading it.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/vector_math.h"

namespace tessera::cpu {

template <class A>
struct SoftmaxRow {
  A max, sum;
};

// So many exponentials are added in fp32, these sums in double: a vocabulary's, one after the other, would
// lose what is less than half of the sum's last bit, always towards zero.
constexpr std::int64_t kColumnsInOneSum = 1024;

template <class T>
SoftmaxRow<Accumulate<T>> softmax_row(std::span<const T> x) {
  using A = Accumulate<T>;
  const T* from = x.data();
  const auto columns = static_cast<std::int64_t>(x.size());
  A max = -std::numeric_limits<A>::infinity();
#pragma omp simd reduction(max : max)
  for (std::int64_t c = 0; c < columns; ++c) max = max < widen(from[c]) ? widen(from[c]) : max;
  double sum = 0;
  for (std::int64_t begin = 0; begin < columns; begin += kColumnsInOneSum) {
    const std::int64_t end = std::min(begin + kColumnsInOneSum, columns);
    A part = 0;
#pragma omp simd reduction(+ : part)
    for (std::int64_t c = begin; c < end; ++c) part += bounded_exp(widen(from[c]) - max);
    sum += part;
  }
  return {max, static_cast<A>(sum)};
}

// y = softmax(x) * scale; y may lie on x.
template <class T>
void write_softmax(std::span<const T> x, const SoftmaxRow<Accumulate<T>>& row, Accumulate<T> scale,
                   std::span<T> y) {
  using A = Accumulate<T>;
  const T* from = x.data();
  T* to = y.data();
  const auto columns = static_cast<std::int64_t>(x.size());
  const A max = row.max, factor = scale / row.sum;
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) put(to[c], bounded_exp(widen(from[c]) - max) * factor);
}

}  // namespace tessera::cpu
