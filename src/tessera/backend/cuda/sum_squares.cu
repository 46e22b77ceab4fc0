// sum_squares, of one node or of many at once. A tensor is cut into chunks; a block adds up a chunk in
// double, and another one the chunks of a tensor: the bits of a sum depend on its tensor alone.
#include <vector>

#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/limits.h"
#include "tessera/backend/cuda/many_tensors.h"
#include "tessera/backend/cuda/reduce.cuh"
#include "tessera/ops/optimizer_ops.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cuda {
namespace {

// Elements side by side that count in one result, and the first of their chunks.
struct Stretch {
  const void* x;
  std::int64_t count;
  unsigned first_chunk;
};
struct Stretches {
  Stretch at[kSquareStretches];
  unsigned count = 0;
  unsigned first_chunk = 0, end_chunk = 0;  // of all of them
};

template <int W, class T>
__device__ double squares_of(const T* x, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma unroll 4
  for (std::int64_t at = begin + threadIdx.x * W; at + W <= end; at += kThreads * W) {
    float values[W];
    load<W>(x + at, values);
#pragma unroll
    for (int i = 0; i < W; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  const std::int64_t rest = begin + (end - begin) / W * W + threadIdx.x;
  if (W > 1 && rest < end) {
    const double value = widen(x[rest]);
    sum += value * value;
  }
  return sum;
}

// Blocks walk through the chunks.
template <class T>
__global__ void __launch_bounds__(kThreads)
    square_chunks(const __grid_constant__ Stretches stretches, double* of_chunk) {
  unsigned i = 0;
  for (unsigned chunk = stretches.first_chunk + blockIdx.x; chunk < stretches.end_chunk; chunk += gridDim.x) {
    while (i + 1 < stretches.count && chunk >= stretches.at[i + 1].first_chunk) ++i;
    const Stretch& stretch = stretches.at[i];
    const T* const x = static_cast<const T*>(stretch.x);
    const std::int64_t begin = (chunk - stretch.first_chunk) * kSquareChunk;
    const std::int64_t end = min(stretch.count, begin + kSquareChunk);
    const bool in_packs = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
    const double sum =
        block_sum(in_packs ? squares_of<kPack<T>>(x, begin, end) : squares_of<1>(x, begin, end));
    if (threadIdx.x == 0) of_chunk[chunk] = sum;
  }
}

// The chunks of a result; none: zero.
struct Result {
  float* to;
  unsigned first_chunk, num_chunks;
};
struct Results {
  Result at[kSquareSums];
  unsigned count = 0;
};

__global__ void __launch_bounds__(kThreads)
    add_chunks(const __grid_constant__ Results results, const double* of_chunk) {
  const Result& result = results.at[blockIdx.x];
  double sum = 0;
  for (unsigned i = threadIdx.x; i < result.num_chunks; i += kThreads)
    sum += of_chunk[result.first_chunk + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result.to = static_cast<float>(sum);
}

// Collects stretches and results until they fill a launch.
class Squares {
 public:
  Squares(Context& context, std::span<std::byte> workspace)
      : context_(context),
        of_chunk_(reinterpret_cast<double*>(workspace.data())),
        most_chunks_(static_cast<unsigned>(workspace.size() / sizeof(double))) {}

  // The elements of these ranges of x.
  void add(const TensorView& x, std::span<const ElementRange> ranges, float* to) {
    unsigned num_chunks = 0;
    for (const ElementRange& range : ranges) num_chunks += num_blocks(range.size(), kSquareChunk);
    TS_ASSERT(num_chunks <= most_chunks_);
    if (results_.count == kSquareSums || stretches_.end_chunk + num_chunks > most_chunks_) finish();
    results_.at[results_.count++] = {to, stretches_.end_chunk, num_chunks};
    for (const ElementRange& range : ranges) {
      if (range.size() == 0) continue;
      if (stretches_.count == kSquareStretches || x.dtype != dtype_) sum_chunks();
      dtype_ = x.dtype;
      const auto* const begin = static_cast<const std::byte*>(x.data) + range.begin * dtype_bytes(x.dtype);
      stretches_.at[stretches_.count++] = {begin, range.size(), stretches_.end_chunk};
      stretches_.end_chunk += num_blocks(range.size(), kSquareChunk);
    }
  }

  // Writes the results of all that was added.
  void finish() {
    if (results_.count == 0) return;
    sum_chunks();
    add_chunks<<<results_.count, kThreads, 0, context_.stream>>>(results_, of_chunk_);
    stretches_.first_chunk = stretches_.end_chunk = results_.count = 0;
  }

 private:
  void sum_chunks() {
    if (stretches_.count == 0) return;
    for_dtype(dtype_, [&]<class T>(T) {
      const unsigned num_chunks = stretches_.end_chunk - stretches_.first_chunk;
      const unsigned blocks = std::min(resident_blocks(square_chunks<T>), num_chunks);
      square_chunks<T><<<blocks, kThreads, 0, context_.stream>>>(stretches_, of_chunk_);
    });
    stretches_.count = 0;
    stretches_.first_chunk = stretches_.end_chunk;
  }

  Context& context_;
  double* of_chunk_;
  unsigned most_chunks_;
  DType dtype_ = DType::f32;  // of the stretches
  Stretches stretches_;
  Results results_;
};

// What counts here of a tensor of which there is a shard with copies: the runs that this rank is the first to
// hold.
std::vector<ElementRange> counted_stretches(const KernelCall& call, const ElementRange& counted) {
  const auto& attrs = call.attrs->as<SumSquaresAttrs>();
  if (!attrs.copies.is_shard()) return {counted};
  std::vector<ElementRange> stretches;
  const int rank = coordinate(call, attrs.copies_axis);
  for_each_shard_run(attrs.whole, attrs.copies, attrs.copies_ranks, rank, [&](const ShardRun& run) {
    const std::int64_t begin = std::max(counted.begin, run.local_offset);
    const std::int64_t end = std::min(counted.end, run.local_offset + run.count);
    if (run.first_copy && begin < end) stretches.push_back({begin, end});
  });
  return stretches;
}

// A tensor lies there whole or, with fewer elements than the largest, as this rank's range alone.
void add_all(const KernelCall& call, Squares& squares) {
  const FlatRange& range = call.attrs->as<SumSquaresAttrs>().range;
  std::int64_t num_elems = 0;
  for (const TensorView& input : call.inputs) num_elems = std::max(num_elems, input.num_elems());
  const std::vector<ElementRange> stretches = counted_stretches(call, counted_range(call, range, num_elems));
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorView& input = call.inputs[i];
    const std::int64_t stored_from =
        input.num_elems() < num_elems ? own_range(call, range, num_elems).begin : 0;
    std::vector<ElementRange> stored = stretches;
    for (ElementRange& stretch : stored) stretch = {stretch.begin - stored_from, stretch.end - stored_from};
    squares.add(input, stored, data<float>(call.outputs[i]));
  }
}

// It is one call's own only while that runs: the results of the others may lie there.
bool can_share(std::span<std::byte> workspace, std::span<const KernelCall> calls) {
  return std::ranges::none_of(calls, [&](const KernelCall& call) {
    return std::ranges::any_of(call.outputs, [&](const TensorView& output) {
      const auto* const at = static_cast<const std::byte*>(output.data);
      return at >= workspace.data() && at < workspace.data() + workspace.size();
    });
  });
}

}  // namespace

// Ranges of a tensor are cut one by one, so that each may add a chunk.
std::int64_t sum_squares_workspace_bytes(const Graph& graph, const Node& node) {
  std::int64_t most = 0;
  for (ValueId input : node.inputs) most = std::max(most, graph.type(input).shape.num_elems());
  return std::max(kSquareChunksAtOnce, 2 * ((most + kSquareChunk - 1) / kSquareChunk)) *
         std::int64_t{sizeof(double)};
}

void sum_squares(const KernelCall& call, Context& context) {
  Squares squares(context, call.workspace);
  add_all(call, squares);
  squares.finish();
}

void sum_squares_of_many(std::span<const KernelCall> calls, Context& context) {
  if (calls.empty()) return;
  const auto workspace =
      std::ranges::max(calls, {}, [](const KernelCall& call) { return call.workspace.size(); }).workspace;
  if (!can_share(workspace, calls)) {
    for (const KernelCall& call : calls) sum_squares(call, context);
    return;
  }
  Squares squares(context, workspace);
  // A launch has one element type.
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const KernelCall& call : calls) {
      if (call.inputs[0].dtype == dtype) add_all(call, squares);
    }
  }
  squares.finish();
}

}  // namespace tessera::cuda
