// With dropout, what the kernels of causal attention on Hopper keep: a bit for each score that a thread of a
// group of four warps holds, in the order of its registers, in words that it loads while products run. They
// are made before each kernel by one of their own, whose registers are free for random numbers.
#pragma once

#include "tessera/backend/cuda/attention.h"
#include "tessera/backend/cuda/attention_tiles.cuh"

namespace tessera::cuda {

template <int kWords>
struct alignas(4 * kWords) KeepWords {
  std::uint32_t words[kWords];

  __device__ bool keeps(int score) const { return ((words[score / 32] >> (score % 32)) & 1) != 0; }
};

// Of all tiles of all heads: `rows` by `columns` tiles of a head, of which a group holds one. A head's take T
// * T / 8 bytes; those that no thread block walks over are never written or read.
template <int kWords>
struct KeepTable {
  int rows = 0, columns = 0;
  KeepWords<kWords>* words = nullptr;  // [heads, rows, columns, threads of a group]

  std::int64_t bytes(const AttentionShape& shape) const {
    return std::int64_t{shape.batch} * shape.heads * rows * columns * kGroupThreads * 4 * kWords;
  }
  // This thread's.
  __device__ KeepWords<kWords>& of(int head, int row, int column) const {
    return words[((std::int64_t{head} * rows + row) * columns + column) * kGroupThreads +
                 static_cast<int>(threadIdx.x) % kGroupThreads];
  }
};

// Zeroes what is dropped.
template <int kWords, int kNum>
__device__ void drop(const KeepWords<kWords>& keep, float (&scores)[kNum]) {
  static_assert(kNum == 32 * kWords);
#pragma unroll
  for (int i = 0; i < kNum; ++i) {
    if (!keep.keeps(i)) scores[i] = 0;
  }
}

// Of scores[64 queries, 128 keys]; row r of the table begins with query 64 r - missing_rows.
void make_keep_of_queries(Context& context, const AttentionShape& shape, int missing_rows,
                          const KeepTable<2>& table);
// Of scores[64 keys, kQueries queries]; rows of the table are keys.
template <int kQueries>
void make_keep_of_keys(Context& context, const AttentionShape& shape,
                       const KeepTable<kQueries / kGroupRows>& table);

}  // namespace tessera::cuda
