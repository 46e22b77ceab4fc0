// The output projection and its loss, a chunk of rows at a time: the logits of a chunk are made, turned
// into their own gradient in place, and used up before the next chunk's take their place.
#include <algorithm>

#include "tessera/backend/cpu/column_sums.h"
#include "tessera/backend/cpu/cross_entropy_rows.h"
#include "tessera/backend/cpu/gemm.h"
#include "tessera/backend/cpu/kernel_workspace.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/vocabulary_rows.h"
#include "tessera/ops/cross_entropy.h"

namespace tessera::cpu {
namespace {

// The shapes both kernels work with.
struct Head {
  std::int64_t rows, width, vocab, chunk;
  std::int64_t words;  // columns of the logits that are no padding, unless the vocabulary is cut
  CutRange cut;
};

Head head_of(const Shape& x, const Shape& weight, const Attrs& attrs) {
  const auto& own = attrs.as<LinearCrossEntropyAttrs>();
  const std::int64_t words = own.words > 0 ? own.words : weight[0];
  return {x.num_rows(), weight[1], weight[0], own.chunk_rows, words, own.vocabulary};
}

// Rows [first, first + count) of x times the weight, into the chunk at the front of the workspace. `bias`: of
// the inputs, if there are so many.
template <class T>
std::span<Accumulate<T>> chunk_logits(const KernelCall& call, Context& context, const Head& head,
                                      std::int64_t first, std::int64_t count, std::size_t bias,
                                      std::span<std::byte> scratch) {
  const auto logits = workspace_as<Accumulate<T>>(call, head.chunk * head.vocab);
  gemm(context.pool,
       Gemm<T, T, Accumulate<T>>{
           .shape = {count, head.vocab, head.width},
           .a = {call.inputs[0].as<T>().data() + first * head.width, head.width, false},
           .b = {call.inputs[1].as<T>().data(), head.width, true},
           .c = {logits.data(), head.vocab, false},
           .bias = call.inputs.size() > bias ? call.inputs[bias].as<T>().data() : nullptr},
       scratch);
  return logits;
}

// Logits, and what ranks tell each other of them.
std::int64_t chunk_bytes(const Head& head, DType dtype) {
  return (head.chunk * head.vocab + summary_elems(head.chunk, head.cut)) * dtype_bytes(dtype);
}

template <class T>
std::span<std::byte> scratch_behind_chunk(const KernelCall& call, const Head& head) {
  return call.workspace.subspan(static_cast<std::size_t>(chunk_bytes(head, dtype_of<Accumulate<T>>)));
}

// The loss of a chunk. With `grad_scale` its logits become their own gradients.
template <class A>
double chunk_loss(const KernelCall& call, Context& context, const Head& head, std::span<A> logits,
                  std::span<const std::int32_t> targets, const A* grad_scale) {
  const auto count = static_cast<std::int64_t>(targets.size());
  if (head.cut.cut) {
    const auto summaries =
        workspace_as<A>(call, head.chunk * head.vocab + summary_elems(head.chunk, head.cut))
            .subspan(static_cast<std::size_t>(head.chunk * head.vocab));
    return cut_rows_loss<A>(call, context, head.cut, {logits, head.vocab, targets, summaries}, grad_scale);
  }
  return sum_over_blocks(context.pool, count, 1, [&](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t r = begin; r < end; ++r) {
      const auto all =
          logits.subspan(static_cast<std::size_t>(r * head.vocab), static_cast<std::size_t>(head.vocab));
      const auto row = all.first(static_cast<std::size_t>(head.words));
      const std::int32_t target = targets[static_cast<std::size_t>(r)];
      sum += grad_scale == nullptr ? cross_entropy_row<A>(row, target)
                                   : cross_entropy_row_grad<A>(row, target, *grad_scale, row);
      if (grad_scale != nullptr) std::fill(all.begin() + head.words, all.end(), A{0});
    }
    return sum;
  });
}

}  // namespace

void linear_cross_entropy(const KernelCall& call, Context& context) {
  const Head head = head_of(call.inputs[0].shape, call.inputs[1].shape, *call.attrs);
  const auto targets = call.inputs[2].as<std::int32_t>();
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    double loss = 0;
    for (std::int64_t first = 0; first < head.rows; first += head.chunk) {
      const std::int64_t count = std::min(head.chunk, head.rows - first);
      const auto logits =
          chunk_logits<T>(call, context, head, first, count, 4, scratch_behind_chunk<T>(call, head));
      const auto some = targets.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      loss += chunk_loss<A>(call, context, head, logits, some, nullptr);
    }
    const A scale = call.inputs[3].as<A>()[0];
    call.outputs[0].as<A>()[0] = static_cast<A>(loss) * scale;
  });
}

void linear_cross_entropy_grad(const KernelCall& call, Context& context) {
  const Head head = head_of(call.inputs[0].shape, call.inputs[1].shape, *call.attrs);
  const auto targets = call.inputs[2].as<std::int32_t>();
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    using A = Accumulate<T>;
    const A scale = call.inputs[3].as<A>()[0];
    const std::span<std::byte> scratch = scratch_behind_chunk<T>(call, head);
    double loss = 0;
    for (std::int64_t first = 0; first < head.rows; first += head.chunk) {
      const std::int64_t count = std::min(head.chunk, head.rows - first);
      const auto logits = chunk_logits<T>(call, context, head, first, count, 5, scratch);
      const auto some = targets.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      loss += chunk_loss<A>(call, context, head, logits, some, &scale);
      gemm(context.pool,
           Gemm<A, T, T>{.shape = {count, head.width, head.vocab},
                         .a = {logits.data(), head.vocab, false},
                         .b = {call.inputs[1].as<T>().data(), head.width, false},
                         .c = {call.outputs[1].as<T>().data() + first * head.width, head.width, false}},
           scratch);
      gemm(context.pool,
           Gemm<A, T, A>{.shape = {head.vocab, head.width, count},
                         .a = {logits.data(), head.vocab, true},
                         .b = {call.inputs[0].as<T>().data() + first * head.width, head.width, false},
                         .c = {call.outputs[2].as<A>().data(), head.width, false},
                         .beta = call.starts_sums && first == 0 ? 0.0 : 1.0},
           scratch);
      if (call.outputs.size() == 4) {
        if (call.starts_sums && first == 0) std::ranges::fill(call.outputs[3].as<A>(), A{0});
        add_column_sums<A>(context.pool, logits.first(static_cast<std::size_t>(count * head.vocab)),
                           call.outputs[3].as<A>());
      }
    }
    call.outputs[0].as<A>()[0] = static_cast<A>(loss) * scale;
  });
}

std::int64_t linear_cross_entropy_workspace_bytes(const Graph& graph, const Node& node, int num_threads) {
  const ValueType& x = graph.type(node.inputs[0]);
  const Head head = head_of(x.shape, graph.type(node.inputs[1]).shape, node.attrs);
  const DType wide = accumulate_dtype(x.dtype);
  // The last chunk may be smaller and yet need more: products are cut as evenly as their sizes allow.
  const std::int64_t last_chunk = head.rows - (head.rows - 1) / head.chunk * head.chunk;
  std::int64_t products = 0;
  for (const std::int64_t count : {std::min(head.rows, head.chunk), last_chunk}) {
    products = std::max({products, gemm_workspace_bytes({count, head.vocab, head.width}, wide, num_threads),
                         gemm_workspace_bytes({count, head.width, head.vocab}, x.dtype, num_threads),
                         gemm_workspace_bytes({head.vocab, head.width, count}, wide, num_threads)});
  }
  return chunk_bytes(head, wide) + products;
}

}  // namespace tessera::cpu
