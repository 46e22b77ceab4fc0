// Sums over the rows of a matrix: gradients of biases (sum_to) and of the norms' weights and biases.
//
// A task owns a strip of columns and walks all rows in order, so no two tasks write the same place and
// the order of additions is that of the rows.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/loop_blocks.h"

namespace tessera::cpu {

// to[c] += the sum of kRows rows of `columns` elements, at `from` and below; c < width. Several rows at
// once keep several streams of memory going and load and store the sums once for all of them. The rows below
// these are fetched meanwhile: they lie pages apart, which no hardware prefetcher crosses.
template <int kRows, class T>
void add_rows(const T* from, std::int64_t columns, double* to, std::int64_t width) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t first = 0; first < width; first += kLine) {
    const std::int64_t end = std::min(width, first + kLine);
    for (int row = 0; row < kRows; ++row) __builtin_prefetch(from + (kRows + row) * columns + first);
#pragma omp simd
    for (std::int64_t c = first; c < end; ++c) {
      double sum = to[c];
      for (int row = 0; row < kRows; ++row) sum += widen(from[row * columns + c]);
      to[c] = sum;
    }
  }
}

// sums[c] += sum over r of matrix[r * columns + c], columns = sums.size(); added up in double.
template <class T>
void add_column_sums(ThreadPool& pool, std::span<const T> matrix, std::span<Accumulate<T>> sums) {
  constexpr std::int64_t kStrip = 128;
  constexpr int kRows = 8;
  const auto columns = static_cast<std::int64_t>(sums.size());
  const std::int64_t num_rows = static_cast<std::int64_t>(matrix.size()) / columns;
  for_each_block(pool, columns, kStrip, [&](std::int64_t begin, std::int64_t end) {
    std::array<double, kStrip> strip{};
    const T* from = matrix.data() + begin;
    std::int64_t row = 0;
    for (; row + kRows <= num_rows; row += kRows) {
      add_rows<kRows>(from + row * columns, columns, strip.data(), end - begin);
    }
    for (; row < num_rows; ++row) add_rows<1>(from + row * columns, columns, strip.data(), end - begin);
    for (std::int64_t c = begin; c < end; ++c) {
      Accumulate<T>& sum = sums[static_cast<std::size_t>(c)];
      sum = static_cast<Accumulate<T>>(sum + strip[static_cast<std::size_t>(c - begin)]);
    }
  });
}

// The rows of a norm's gradient in parts, each with its own partial column sums in the workspace: one pass
// over dy and x then gives dx and the partial sums. Few enough that the partial sums stay small.
struct RowParts {
  std::int64_t num_rows = 0;
  std::int64_t rows_per_part = 1;
  std::int64_t num_parts() const { return num_blocks(num_rows, rows_per_part); }
};

inline RowParts row_parts(std::int64_t num_rows, std::int64_t columns) {
  constexpr std::int64_t kMaxParts = 64;
  return {num_rows, std::max(rows_per_task(columns), num_blocks(num_rows, kMaxParts))};
}

}  // namespace tessera::cpu
