#include "tessera/backend/cuda/attention_keep.cuh"
#include "tessera/backend/cuda/keep_words.cuh"
#include "tessera/backend/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

// Score i of a thread is of row i / 2 % 2 * 8 and column i / 4 * 8 + i % 2 behind the thread's first ones,
// which are warp * 16 + lane / 4 and lane % 4 * 2 (warpgroup_mma.cuh). Rows are queries here, and keys below.
constexpr int kKeys = 2 * 32 * kGroupThreads / kGroupRows;

__global__ void __launch_bounds__(kGroupThreads)
    keep_of_queries(AttentionShape shape, int missing_rows, KeepTable<2> table) {
  __shared__ KeepTile<true, kGroupRows, kKeys> keep;
  const int head = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y),
            column = static_cast<int>(blockIdx.z);
  const int first_query = row * kGroupRows - missing_rows, first_key = column * kKeys;
  if (first_key >= first_query + kGroupRows) return;  // no query sees a key
  keep.fill(shape, head / shape.heads, head % shape.heads, first_query, first_key);
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  KeepWords<2> own = {};
#pragma unroll
  for (int i = 0; i < kKeys / 2; i += 2) {
    const std::uint32_t eight = keep.bits[warp * 16 + lane / 4 + i / 2 % 2 * 8][i / 4];
    own.words[i / 32] |= ((eight >> (lane % 4 * 2)) & 3) << (i % 32);
  }
  table.of(head, row, column) = own;
}

template <int kQueries>
__global__ void __launch_bounds__(kGroupThreads)
    keep_of_keys(AttentionShape shape, KeepTable<kQueries / kGroupRows> table) {
  __shared__ KeepTile<true, kQueries, kGroupRows> keep;
  const int head = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y),
            column = static_cast<int>(blockIdx.z);
  const int first_query = column * kQueries, first_key = row * kGroupRows;
  // As the gradient walks: a block of keys is two rows.
  if (row / 2 * 2 * kGroupRows >= first_query + kQueries) return;
  keep.fill(shape, head / shape.heads, head % shape.heads, first_query, first_key);
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  KeepWords<kQueries / kGroupRows> own = {};
#pragma unroll
  for (int i = 0; i < kQueries / 2; ++i) {
    const std::uint32_t eight = keep.bits[i / 4 * 8 + i % 2 + lane % 4 * 2][2 * warp + i / 2 % 2];
    own.words[i / 32] |= ((eight >> (lane / 4)) & 1) << (i % 32);
  }
  table.of(head, row, column) = own;
}

template <int kWords>
dim3 grid_of(const AttentionShape& shape, const KeepTable<kWords>& table) {
  return {static_cast<unsigned>(shape.batch * shape.heads), static_cast<unsigned>(table.rows),
          static_cast<unsigned>(table.columns)};
}

}  // namespace

void make_keep_of_queries(Context& context, const AttentionShape& shape, int missing_rows,
                          const KeepTable<2>& table) {
  keep_of_queries<<<grid_of(shape, table), kGroupThreads, 0, context.stream>>>(shape, missing_rows, table);
  check_cuda(cudaGetLastError(), "choose what attention drops");
}

template <int kQueries>
void make_keep_of_keys(Context& context, const AttentionShape& shape,
                       const KeepTable<kQueries / kGroupRows>& table) {
  keep_of_keys<kQueries><<<grid_of(shape, table), kGroupThreads, 0, context.stream>>>(shape, table);
  check_cuda(cudaGetLastError(), "choose what attention drops");
}

template void make_keep_of_keys<64>(Context&, const AttentionShape&, const KeepTable<1>&);
template void make_keep_of_keys<128>(Context&, const AttentionShape&, const KeepTable<2>&);

}  // namespace tessera::cuda
