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
#include "tessera/backend/cuda/rank_part.h"
#include "tessera/ops/embedding.h"

namespace tessera::cuda {
namespace {

// Of the whole vocabulary, and of the rows [first, first + rows) that are here; and the id without a gradient.
struct Vocabulary {
  std::int64_t all, first, rows, padding_id;
};

Vocabulary vocabulary_of(const KernelCall& call, std::int64_t rows) {
  const auto& [cut, padding_id] = call.attrs->as<EmbeddingAttrs>();
  return {cut.cut ? cut.whole : rows, first_index(call, cut, rows), rows, padding_id};
}

template <int W, class T>
__global__ void look_up(const T* table, const std::int32_t* ids, T* y, Vocabulary vocabulary,
                        std::int64_t num_elems, std::int64_t width) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
  if (at >= num_elems) return;
  const std::int64_t id = ids[at / width], row = id - vocabulary.first;
  assert(id >= 0 && id < vocabulary.all);
  Pack<T, W> pack{};
  if (row >= 0 && row < vocabulary.rows) {
    pack = *reinterpret_cast<const Pack<T, W>*>(table + row * width + at % width);
  }
  *reinterpret_cast<Pack<T, W>*>(y + at) = pack;
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

constexpr std::int64_t kPiece = 32;

struct SortedTokens {
  const std::uint32_t* rows;
  const std::uint32_t* positions;
  std::int64_t tokens;
  std::uint32_t nowhere;  // the key of ids that are not here
};

// Where the sums of a piece's first and last run go if they do not begin and end in it: [pieces, 2, width].
__device__ float* partial_of(float* partial, std::int64_t piece, int which, std::int64_t width) {
  return partial + (2 * piece + which) * width;
}

// Block (threads over columns) x piece. A run wholly inside the piece is added to its row; one that began
// before goes to partial 0, one that begins here and continues to partial 1.
template <class T>
__global__ void sum_runs(SortedTokens sorted, const T* dy, float* accumulator, float* partial,
                         std::int64_t width) {
  const std::int64_t column = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (column >= width) return;
  const std::int64_t begin = blockIdx.x * kPiece, end = min(sorted.tokens, begin + kPiece);
  for (std::int64_t first = begin; first < end;) {
    const std::uint32_t row = sorted.rows[first];
    if (row == sorted.nowhere) return;
    float sum = 0;
    std::int64_t last = first;
    for (; last < end && sorted.rows[last] == row; ++last)
      sum += widen(dy[sorted.positions[last] * width + column]);
    const bool began_before = first == begin && begin > 0 && sorted.rows[begin - 1] == row;
    const bool continues = last == end && end < sorted.tokens && sorted.rows[end] == row;
    if (began_before) {
      partial_of(partial, blockIdx.x, 0, width)[column] = sum;
    } else if (continues) {
      partial_of(partial, blockIdx.x, 1, width)[column] = sum;
    } else {
      accumulator[row * width + column] += sum;
    }
    first = last;
  }
}

// The block of the piece in which a long run begins adds up its parts.
__global__ void sum_long_runs(SortedTokens sorted, float* accumulator, float* partial, std::int64_t width) {
  const std::int64_t column = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  const std::int64_t begin = blockIdx.x * kPiece, end = begin + kPiece;
  if (column >= width || end >= sorted.tokens) return;
  const std::uint32_t row = sorted.rows[end - 1];
  const bool began_before = sorted.rows[begin] == row && begin > 0 && sorted.rows[begin - 1] == row;
  if (row == sorted.nowhere || sorted.rows[end] != row || began_before) return;
  float sum = partial_of(partial, blockIdx.x, 1, width)[column];
  for (std::int64_t at = end, piece = blockIdx.x + 1; at < sorted.tokens && sorted.rows[at] == row;
       at += kPiece, ++piece) {
    sum += partial_of(partial, piece, 0, width)[column];
  }
  accumulator[row * width + column] += sum;
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
    const auto aligned = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
    indices = aligned(tokens * 4);
    partial = 4 * indices;
    scratch = partial + aligned(static_cast<std::int64_t>(num_blocks(tokens, kPiece)) * 2 * width * 4);
    check_cuda(
        sort(nullptr, scratch_bytes, nullptr, nullptr, nullptr, nullptr, tokens, key_bits(rows), nullptr),
        "size a sort");
    total = scratch + aligned(static_cast<std::int64_t>(scratch_bytes));
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
      look_up<W><<<num_blocks(y.num_elems(), W * kThreads), kThreads, 0, context.stream>>>(
          data<T>(table), data<std::int32_t>(call.inputs[1]), data<T>(y), vocabulary, y.num_elems(), width);
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
  const unsigned threads = row_threads(width, 1);
  const dim3 grid(num_blocks(tokens, kPiece), num_blocks(width, threads));
  auto* const accumulator = data<float>(call.outputs[0]);
  for_dtype(call.inputs[2].dtype, [&]<class T>(T) {
    sum_runs<<<grid, threads, 0, context.stream>>>(sorted, data<T>(call.inputs[2]), accumulator, partial,
                                                   width);
  });
  sum_long_runs<<<grid, threads, 0, context.stream>>>(sorted, accumulator, partial, width);
}

}  // namespace tessera::cuda
