// embedding, embedding_grad.
//
// The gradient adds rows of dy to the rows that their ids name. Positions are sorted by id first (a stable
// sort, so equal ids stay in the order of the tokens), and sorted positions are cut into pieces of a fixed
// size. A block sums the runs of equal ids in its piece; a run that continues in other pieces goes through
// partial sums, which are added in the order of the pieces. No atomics: the bits depend on ids and dy alone.
#include <cassert>
#include <cub/device/device_radix_sort.cuh>

#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/base/alignment.h"
#include "tessera/ops/embedding.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cuda {
namespace {

// Of the whole vocabulary, and of the rows [first, first + rows) that are here; and the id without a
// gradient.
struct Vocabulary {
  std::int64_t all, first, rows, padding_id;
};

Vocabulary vocabulary_of(const KernelCall& call, std::int64_t rows) {
  const auto& [cut, padding_id] = call.attrs->as<EmbeddingAttrs>();
  return {cut.cut ? cut.whole : rows, first_index(call, cut, rows), rows, padding_id};
}

// Block x is a token, y a strip of columns.
template <int W, class T>
__global__ void look_up(const T* table, const std::int32_t* ids, T* y, Vocabulary vocabulary,
                        std::int64_t width) {
  const std::int64_t token = blockIdx.x, id = ids[token], row = id - vocabulary.first;
  assert(id >= 0 && id < vocabulary.all);
  const std::int64_t column = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * W;
  if (column >= width) return;
  Pack<T, W> pack{};
  if (row >= 0 && row < vocabulary.rows) {
    pack = *reinterpret_cast<const Pack<T, W>*>(table + row * width + column);
  }
  *reinterpret_cast<Pack<T, W>*>(y + token * width + column) = pack;
}

// Sort keys: the row here, or `rows` for padding and ids of other ranks, which come last and are not summed.
__global__ void rows_of_ids(const std::int32_t* ids, std::int64_t tokens, Vocabulary vocabulary,
                            std::uint32_t* keys, std::uint32_t* positions) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= tokens) return;
  const std::int64_t id = ids[at], row = id - vocabulary.first;
  assert(id >= 0 && id < vocabulary.all);
  const bool summed = row >= 0 && row < vocabulary.rows && id != vocabulary.padding_id;
  keys[at] = static_cast<std::uint32_t>(summed ? row : vocabulary.rows);
  positions[at] = static_cast<std::uint32_t>(at);
}

constexpr int kPiece = 16, kAtOnce = 8;  // sorted positions of a block, and those whose dy is read at once

struct SortedTokens {
  const std::uint32_t* rows;
  const std::uint32_t* positions;
  std::int64_t tokens;
  std::uint32_t nowhere;  // the key of ids that are not here
};

// What a block knows of its piece: key[1 + i] is that of position i, key[0] and key[kPiece + 1] those of its
// neighbours. Behind the last token all is nowhere.
struct Piece {
  std::uint32_t key[kPiece + 2];
  std::uint32_t position[kPiece];

  __device__ void read(const SortedTokens& sorted, std::int64_t begin) {
    const std::int64_t at = begin + threadIdx.x, before = at - 1;
    if (threadIdx.x < kPiece + 2) {
      key[threadIdx.x] = before >= 0 && before < sorted.tokens ? sorted.rows[before] : sorted.nowhere;
    }
    if (threadIdx.x < kPiece) position[threadIdx.x] = at < sorted.tokens ? sorted.positions[at] : 0;
    __syncthreads();
  }
};

// Where the sums of a piece's first and last run go if they do not begin and end in it: [pieces, 2, width].
__device__ float* partial_of(float* partial, std::int64_t piece, int which, std::int64_t width) {
  return partial + (2 * piece + which) * width;
}

// Of floats, a pack of W is one or two packs of four.
template <int W>
__device__ void load_floats(const float* from, float (&to)[W]) {
  constexpr int kStep = W < 4 ? W : 4;
#pragma unroll
  for (int i = 0; i < W; i += kStep) load<kStep>(from + i, reinterpret_cast<float(&)[kStep]>(to[i]));
}
template <int W>
__device__ void store_floats(float* to, const float (&from)[W]) {
  constexpr int kStep = W < 4 ? W : 4;
#pragma unroll
  for (int i = 0; i < W; i += kStep) store<kStep>(to + i, reinterpret_cast<const float(&)[kStep]>(from[i]));
}
template <int W>
__device__ void add_floats(float* to, const float (&sum)[W]) {
  float old[W];
  load_floats(to, old);
#pragma unroll
  for (int i = 0; i < W; ++i) old[i] += sum[i];
  store_floats(to, old);
}

// Block x is a piece, y a strip of columns. A run wholly inside the piece is added to its row; one that began
// before goes to partial 0, one that begins here and continues to partial 1.
template <int W, class T>
__global__ void sum_runs(SortedTokens sorted, const T* dy, float* accumulator, float* partial,
                         std::int64_t width) {
  __shared__ Piece piece;
  piece.read(sorted, std::int64_t{blockIdx.x} * kPiece);
  const std::int64_t column = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * W;
  if (column >= width) return;
  bool began_before = piece.key[0] == piece.key[1];
  float sum[W] = {};
  for (int first = 0; first < kPiece; first += kAtOnce) {
    Pack<T, W> of_token[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (piece.key[1 + first + i] == sorted.nowhere) continue;
      const std::int64_t token = piece.position[first + i];
      of_token[i] = *reinterpret_cast<const Pack<T, W>*>(dy + token * width + column);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::uint32_t row = piece.key[1 + first + i];
      if (row == sorted.nowhere) return;
#pragma unroll
      for (int k = 0; k < W; ++k) sum[k] += widen(of_token[i].elems[k]);
      const bool goes_on = piece.key[2 + first + i] == row;
      if (goes_on && first + i + 1 < kPiece) continue;
      if (began_before || goes_on) {
        store_floats(partial_of(partial, blockIdx.x, began_before ? 0 : 1, width) + column, sum);
      } else {
        add_floats(accumulator + row * width + column, sum);
      }
      began_before = false;
#pragma unroll
      for (int k = 0; k < W; ++k) sum[k] = 0;
    }
  }
}

// The first position from `from` on whose row is not `row`.
__device__ std::int64_t end_of_run(const SortedTokens& sorted, std::int64_t from, std::uint32_t row) {
  std::int64_t low = from, high = sorted.tokens;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (sorted.rows[middle] == row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The block of the piece in which a long run begins adds up its parts.
template <int W>
__global__ void sum_long_runs(SortedTokens sorted, float* accumulator, float* partial, std::int64_t width) {
  const std::int64_t column = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * W;
  const std::int64_t begin = std::int64_t{blockIdx.x} * kPiece, end = begin + kPiece;
  if (column >= width || end >= sorted.tokens) return;
  const std::uint32_t row = sorted.rows[end - 1];
  const bool began_before = sorted.rows[begin] == row && begin > 0 && sorted.rows[begin - 1] == row;
  if (row == sorted.nowhere || sorted.rows[end] != row || began_before) return;
  const std::int64_t end_piece = (end_of_run(sorted, end, row) + kPiece - 1) / kPiece;
  float sum[W];
  load_floats(partial_of(partial, blockIdx.x, 1, width) + column, sum);
#pragma unroll 4
  for (std::int64_t piece = std::int64_t{blockIdx.x} + 1; piece < end_piece; ++piece) {
    float part[W];
    load_floats(partial_of(partial, piece, 0, width) + column, part);
#pragma unroll
    for (int k = 0; k < W; ++k) sum[k] += part[k];
  }
  add_floats(accumulator + row * width + column, sum);
}

int key_bits(std::int64_t rows) {
  int bits = 1;
  while ((std::int64_t{1} << bits) <= rows) ++bits;
  return bits;
}

cudaError_t sort(void* scratch, std::size_t& scratch_bytes, const std::uint32_t* keys,
                 std::uint32_t* sorted_keys, const std::uint32_t* positions, std::uint32_t* sorted_positions,
                 std::int64_t tokens, int bits, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, keys, sorted_keys, positions,
                                         sorted_positions, static_cast<int>(tokens), 0, bits, stream);
}

// Offsets of the workspace, in bytes.
struct GradWorkspace {
  std::int64_t indices;  // of one of four arrays: keys and positions, before and after the sort
  std::int64_t partial, scratch, total;
  std::size_t scratch_bytes = 0;

  GradWorkspace(std::int64_t tokens, std::int64_t rows, std::int64_t width) {
    indices = align_up(tokens * 4);
    partial = 4 * indices;
    scratch = partial + align_up(static_cast<std::int64_t>(num_blocks(tokens, kPiece)) * 2 * width * 4);
    check_cuda(
        sort(nullptr, scratch_bytes, nullptr, nullptr, nullptr, nullptr, tokens, key_bits(rows), nullptr),
        "size a sort");
    total = scratch + align_up(static_cast<std::int64_t>(scratch_bytes));
  }
};

}  // namespace

void embedding(const KernelCall& call, Context& context) {
  const TensorView &table = call.inputs[0], &y = call.outputs[0];
  const std::int64_t width = table.shape[1];
  const Vocabulary vocabulary = vocabulary_of(call, table.shape[0]);
  for_dtype(table.dtype, [&]<class T>(T) {
    with_packs<T>(packs_fit<T>(width, data<T>(table), data<T>(y)), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      const unsigned threads = row_threads(width, W);
      const dim3 grid(static_cast<unsigned>(y.num_elems() / width),
                      num_blocks(width, std::int64_t{threads} * W));
      look_up<W><<<grid, threads, 0, context.stream>>>(data<T>(table), data<std::int32_t>(call.inputs[1]),
                                                       data<T>(y), vocabulary, width);
    });
  });
}

std::int64_t embedding_grad_workspace_bytes(const Graph& graph, const Node& node) {
  const Shape& accumulator = graph.type(node.inputs[0]).shape;
  return GradWorkspace(graph.type(node.inputs[1]).shape.num_elems(), accumulator[0], accumulator[1]).total;
}

void embedding_grad(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  const std::int64_t tokens = call.inputs[1].num_elems();
  const std::int64_t rows = call.outputs[0].shape[0], width = call.outputs[0].shape[1];
  const Vocabulary vocabulary = vocabulary_of(call, rows);
  GradWorkspace space(tokens, rows, width);
  auto* const keys = workspace_at<std::uint32_t>(call, 0, tokens);
  auto* const positions = workspace_at<std::uint32_t>(call, space.indices, tokens);
  auto* const sorted_keys = workspace_at<std::uint32_t>(call, 2 * space.indices, tokens);
  auto* const sorted_positions = workspace_at<std::uint32_t>(call, 3 * space.indices, tokens);
  auto* const partial = workspace_at<float>(call, space.partial, 2 * num_blocks(tokens, kPiece) * width);
  auto* const scratch =
      workspace_at<std::byte>(call, space.scratch, static_cast<std::int64_t>(space.scratch_bytes));
  rows_of_ids<<<num_blocks(tokens, kThreads), kThreads, 0, context.stream>>>(
      data<std::int32_t>(call.inputs[1]), tokens, vocabulary, keys, positions);
  check_cuda(sort(scratch, space.scratch_bytes, keys, sorted_keys, positions, sorted_positions, tokens,
                  key_bits(rows), context.stream),
             "sort tokens");
  const SortedTokens sorted{sorted_keys, sorted_positions, tokens, static_cast<std::uint32_t>(rows)};
  auto* const accumulator = data<float>(call.outputs[0]);
  for_dtype(call.inputs[2].dtype, [&]<class T>(T) {
    const T* const dy = data<T>(call.inputs[2]);
    with_packs<T>(packs_fit<T>(width, dy, accumulator, partial), [&]<class Width>(Width) {
      constexpr int W = Width::value;
      const unsigned threads = row_threads(width, W);
      const dim3 grid(num_blocks(tokens, kPiece), num_blocks(width, std::int64_t{threads} * W));
      sum_runs<W><<<grid, threads, 0, context.stream>>>(sorted, dy, accumulator, partial, width);
      sum_long_runs<W><<<grid, threads, 0, context.stream>>>(sorted, accumulator, partial, width);
    });
  });
}

}  // namespace tessera::cuda
