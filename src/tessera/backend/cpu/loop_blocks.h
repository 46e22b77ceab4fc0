// How a kernel's loop becomes tasks: blocks of elements, of rows or of columns whose size follows from the
// shape alone, so that the bits of a result do not depend on the number of threads.
// Used by every kernel that is not a matrix product.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tessera/base/thread_pool.h"

namespace tessera::cpu {

// Elements of one task: at 10 GB/s a few microseconds, many times what handing out a task costs, and
// small enough to stay in the second-level cache between two passes over it.
inline constexpr std::int64_t kTaskElems = 16 * 1024;

constexpr std::int64_t num_blocks(std::int64_t size, std::int64_t block) {
  return (size + block - 1) / block;
}

// f(begin, end) for every block of [0, size).
template <class F>
void for_each_block(ThreadPool& pool, std::int64_t size, std::int64_t block, F&& f) {
  pool.for_each_task(num_blocks(size, block),
                     [&](std::int64_t task, int) { f(task * block, std::min(size, (task + 1) * block)); });
}

// f(begin, end) for blocks of elements.
template <class F>
void for_each_elem_block(ThreadPool& pool, std::int64_t num_elems, F&& f) {
  for_each_block(pool, num_elems, kTaskElems, f);
}

constexpr std::int64_t rows_per_task(std::int64_t row_elems) {
  return std::max<std::int64_t>(1, kTaskElems / std::max<std::int64_t>(1, row_elems));
}

// f(row) for every row, as many rows per task as make kTaskElems.
template <class F>
void for_each_row(ThreadPool& pool, std::int64_t num_rows, std::int64_t row_elems, F&& f) {
  for_each_block(pool, num_rows, rows_per_task(row_elems), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  });
}

// The sum of f(begin, end) over blocks of at least `least_block`, added up in their order. The sums of
// the blocks wait on the stack, so their number is limited and large loops get larger blocks.
template <class F>
double sum_over_blocks(ThreadPool& pool, std::int64_t size, std::int64_t least_block, F&& f) {
  constexpr std::int64_t kMaxBlocks = 256;
  const std::int64_t block = std::max(least_block, num_blocks(size, kMaxBlocks));
  std::array<double, kMaxBlocks> sums{};
  for_each_block(pool, size, block, [&](std::int64_t begin, std::int64_t end) {
    sums[static_cast<std::size_t>(begin / block)] = f(begin, end);
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace tessera::cpu
