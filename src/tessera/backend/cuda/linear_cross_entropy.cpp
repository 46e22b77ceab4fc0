// The output projection and its loss, a chunk of rows at a time: the logits of a chunk are made in the type
// of x, turned into their gradients in place, and used up before the next chunk's take their place. In bf16
// they are rounded, once, from the product's fp32 sums, as the gradients are anyway: half the bytes, and the
// products want bf16.
#include <algorithm>

#include "tessera/backend/cuda/column_sums.h"
#include "tessera/backend/cuda/cross_entropy_rows.h"
#include "tessera/backend/cuda/gemm.h"
#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/limits.h"
#include "tessera/backend/cuda/side_stream.h"
#include "tessera/backend/cuda/transfers.h"
#include "tessera/base/alignment.h"
#include "tessera/comm/device_communicator.h"
#include "tessera/ops/cross_entropy.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cuda {
namespace {

std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// The chunks are this backend's own: those of the attributes are sized for the caches of CPUs, and products
// are at their fastest with many thousand rows. As equal as the multiple lets them be.
std::int64_t choose_chunk(std::int64_t rows, std::int64_t row_bytes) {
  const std::int64_t most = std::max(kLogitsRows, kLogitsBytes / row_bytes / kLogitsRows * kLogitsRows);
  const std::int64_t chunks = (rows + most - 1) / most;
  return std::min(rows, round_up((rows + chunks - 1) / chunks, kLogitsRows));
}

// The shapes both kernels work with, and where the pieces of their workspace begin.
struct Head {
  std::int64_t rows, width, vocab;
  std::int64_t words;  // columns of the logits that are no padding, unless the vocabulary is cut
  DType dtype;
  CutRange cut;
  // Rows of logits begin at multiples of 16 elements, whatever the vocabulary: products and packs want that.
  std::int64_t stride;
  std::int64_t chunk;                             // rows of it
  std::int64_t losses, logits, summaries, total;  // offsets behind the products' workspace

  Head(const ValueType& x, const Shape& weight, const Attrs& attrs)
      : rows(x.shape.num_rows()),
        width(weight[1]),
        vocab(weight[0]),
        words(attrs.as<LinearCrossEntropyAttrs>().words),
        dtype(x.dtype),
        cut(attrs.as<LinearCrossEntropyAttrs>().vocabulary),
        stride(round_up(vocab, 16)),
        chunk(choose_chunk(rows, stride * dtype_bytes(dtype))) {
    if (words == 0) words = vocab;
    const auto piece = [](std::int64_t begin, std::int64_t bytes) { return begin + align_up(bytes); };
    losses = kGemmWorkspaceBytes;
    logits = piece(losses, rows * 8);
    summaries = piece(logits, chunk * stride * dtype_bytes(dtype));
    total = cut.cut ? piece(summaries, kRowSummary * chunk * (cut.num_ranks + 1) * 4) : summaries;
  }
};

class Chunks {
 public:
  // `bias`: of the inputs, if there are so many.
  Chunks(const KernelCall& call, Context& context, std::size_t bias)
      : call_(call),
        context_(context),
        bias_(call.inputs.size() > bias ? call.inputs[bias].data : nullptr),
        head_({call.inputs[0].dtype, call.inputs[0].shape}, call.inputs[1].shape, *call.attrs) {
    TS_ASSERT(static_cast<std::int64_t>(call.workspace.size()) >= head_.total);
  }

  const Head& head() const { return head_; }

  // Logits of rows [first, first + count).
  void make_logits(std::int64_t first, std::int64_t count) const {
    run({.m = count,
         .n = head_.vocab,
         .k = head_.width,
         .dtype = head_.dtype,
         .c_dtype = head_.dtype,
         .a = {row(call_.inputs[0], first), head_.width, false},
         .b = {call_.inputs[1].data, head_.width, true},
         .c = at(head_.logits),
         .ldc = head_.stride,
         .epilogue = bias_ != nullptr ? Epilogue::bias : Epilogue::none,
         .bias = bias_});
  }

  void make_losses(std::int64_t first, std::int64_t count, bool with_grads) const {
    LogitRows rows{
        at(head_.logits), head_.dtype,  count,
        head_.vocab,      head_.stride, static_cast<const std::int32_t*>(call_.inputs[2].data) + first};
    LogitGrads grads;
    if (with_grads) grads = {at(head_.logits), head_.stride, scale()};
    double* const losses = static_cast<double*>(at(head_.losses)) + first;
    if (!head_.cut.cut) {
      rows.columns = head_.words;
      rows.padding = head_.vocab - head_.words;
      return cross_entropy_of_rows(context_, rows, losses, grads);
    }
    const std::int64_t begin = first_index(call_, head_.cut, head_.vocab);
    const CutWords cut{begin, std::clamp<std::int64_t>(head_.cut.whole - begin, 0, head_.vocab)};
    float* const own = static_cast<float*>(at(head_.summaries));
    float* const all = own + kRowSummary * count;
    summarize_cut_rows(context_, rows, cut, own);
    gather_summaries(own, all, kRowSummary * count);
    cross_entropy_of_cut_rows(context_, rows, cut, all, head_.cut.num_ranks, losses, grads);
  }

  // dx[count, width] = dlogits weight, accumulator[vocab, width] (+)= dlogits^T x, and the bias' likewise.
  void use_grads(std::int64_t first, std::int64_t count) const {
    const bool starts = call_.starts_sums && first == 0;
    run({.m = count,
         .n = head_.width,
         .k = head_.vocab,
         .dtype = head_.dtype,
         .c_dtype = head_.dtype,
         .a = {at(head_.logits), head_.stride, false},
         .b = {call_.inputs[1].data, head_.width, false},
         .c = row(call_.outputs[1], first),
         .ldc = head_.width});
    run({.m = head_.vocab,
         .n = head_.width,
         .k = count,
         .dtype = head_.dtype,
         .c_dtype = DType::f32,
         .a = {at(head_.logits), head_.stride, true},
         .b = {row(call_.inputs[0], first), head_.width, false},
         .c = call_.outputs[2].data,
         .ldc = head_.width,
         .accumulate = !starts});
    if (bias_ == nullptr) return;
    // The products' workspace is free until the next one.
    add_column_sums(context_, head_.dtype, at(head_.logits), {count, head_.vocab, head_.stride},
                    {static_cast<float*>(call_.outputs[3].data), starts},
                    call_.workspace.first(kGemmWorkspaceBytes));
  }

  void sum_losses() const {
    cuda::sum_losses(context_, static_cast<const double*>(at(head_.losses)), head_.rows, scale(),
                     static_cast<float*>(call_.outputs[0].data));
  }

 private:
  void* at(std::int64_t offset) const { return call_.workspace.data() + offset; }
  const float* scale() const { return static_cast<const float*>(call_.inputs[3].data); }
  void* row(const TensorView& tensor, std::int64_t first) const {
    return static_cast<std::byte*>(tensor.data) + first * head_.width * dtype_bytes(tensor.dtype);
  }
  void run(const Product& product) const { context_.gemms.run(product, context_.stream, call_.workspace); }

  void gather_summaries(float* own, float* all, std::int64_t count) const {
    const Group group = group_of(head_.cut.axis);
    if (DeviceCommunicator* const on_device = call_.ranks->on_device(group)) {
      const TensorView part{own, DType::f32, {count}}, whole{all, DType::f32, {head_.cut.num_ranks, count}};
      context_.side.run({&part, 1}, {&whole, 1}, {}, [&](cudaStream_t stream) {
        on_device->all_gather(own, all, {1, count}, DType::f32, stream);
      });
      return context_.side.before_all();
    }
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    const auto ranks = static_cast<std::size_t>(head_.cut.num_ranks);
    std::byte* const host = context_.transfers.scratch(bytes * (ranks + 1));
    context_.transfers.download({host, bytes}, reinterpret_cast<const std::byte*>(own));
    call_.ranks->group(group).all_gather(host, host + bytes, {1, count}, DType::f32);
    context_.transfers.upload(reinterpret_cast<std::byte*>(all), {host + bytes, bytes * ranks});
  }

  const KernelCall& call_;
  Context& context_;
  const void* bias_;
  Head head_;
};

}  // namespace

void linear_cross_entropy(const KernelCall& call, Context& context) {
  const Chunks chunks(call, context, 4);
  const Head& head = chunks.head();
  for (std::int64_t first = 0; first < head.rows; first += head.chunk) {
    const std::int64_t count = std::min(head.chunk, head.rows - first);
    chunks.make_logits(first, count);
    chunks.make_losses(first, count, false);
  }
  chunks.sum_losses();
}

void linear_cross_entropy_grad(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[4].data == call.outputs[2].data);
  TS_ASSERT(call.outputs.size() == 3 || call.inputs[6].data == call.outputs[3].data);
  const Chunks chunks(call, context, 5);
  const Head& head = chunks.head();
  for (std::int64_t first = 0; first < head.rows; first += head.chunk) {
    const std::int64_t count = std::min(head.chunk, head.rows - first);
    chunks.make_logits(first, count);
    chunks.make_losses(first, count, true);
    chunks.use_grads(first, count);
  }
  chunks.sum_losses();
}

std::int64_t linear_cross_entropy_workspace_bytes(const Graph& graph, const Node& node) {
  return Head(graph.type(node.inputs[0]), graph.type(node.inputs[1]).shape, node.attrs).total;
}

}  // namespace tessera::cuda
