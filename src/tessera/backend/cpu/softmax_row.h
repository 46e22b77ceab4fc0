// The softmax of one row: softmax(x)[c] = exp(x[c] - max) / sum. Used by softmax and cross_entropy_rows.
//
// The exponential is taken again when the row is written: kept between the passes it would be rounded
// twice in Bf16, and it costs no more than loading it.
#pragma once

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

template <class T>
SoftmaxRow<Accumulate<T>> softmax_row(std::span<const T> x) {
  using A = Accumulate<T>;
  const T* from = x.data();
  const auto columns = static_cast<std::int64_t>(x.size());
  A max = -std::numeric_limits<A>::infinity();
#pragma omp simd reduction(max : max)
  for (std::int64_t c = 0; c < columns; ++c) max = max < widen(from[c]) ? widen(from[c]) : max;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < columns; ++c) sum += bounded_exp(widen(from[c]) - max);
  return {max, sum};
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
