#include "tessera/ops/collectives.h"

#include "tessera/ops/cross_entropy.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_same(const InferCall& call) {
  call.check(!call.inputs.empty(), "needs at least one input");
  for (std::size_t i = 0; i < call.inputs.size(); ++i) call.check_floating(i);
  return {call.inputs.begin(), call.inputs.end()};
}

std::vector<ValueType> infer_keep_first(const InferCall& call) {
  call.check_num_inputs(1, 1);
  return infer_same(call);
}

std::vector<ValueType> infer_shard(const InferCall& call) {
  call.check_num_inputs(1, 1);
  const auto& attrs = call.attrs.as<CollectiveAttrs>();
  call.check_shape(0, attrs.whole);
  return {{call.dtype(0), local_shape(attrs.whole, attrs.placement)}};
}

std::vector<ValueType> infer_gather(const InferCall& call) {
  call.check_num_inputs(1, 1);
  const auto& attrs = call.attrs.as<CollectiveAttrs>();
  call.check_shape(0, local_shape(attrs.whole, attrs.placement));
  return {{call.dtype(0), attrs.whole}};
}

std::vector<ValueType> infer_copies(const InferCall& call) {
  call.check_num_inputs(1, 1);
  const auto& attrs = call.attrs.as<CollectiveAttrs>();
  call.check_shape(0, local_shape(attrs.whole, attrs.placement));
  return {call.inputs[0]};
}

// Bytes of the blocks that have copies, on one rank.
std::int64_t copied_bytes(const CollectiveAttrs& attrs, DType dtype) {
  std::int64_t rows = 0;
  for (const Block& block : attrs.placement.blocks) {
    if (block.copies(attrs.axis_ranks) > 1) rows += block.local_size();
  }
  return rows * (attrs.whole.num_elems() / attrs.whole[attrs.placement.dim]) * dtype_bytes(dtype);
}

std::int64_t total_bytes(const Graph& graph, std::span<const ValueId> values) {
  std::int64_t bytes = 0;
  for (ValueId v : values) bytes += graph.type(v).num_bytes();
  return bytes;
}

Traffic collective_traffic(const Graph& graph, const Node& node) {
  const auto& attrs = node.attrs.as<CollectiveAttrs>();
  const std::int64_t in = total_bytes(graph, node.inputs), out = total_bytes(graph, node.outputs);
  const int n = attrs.num_ranks;
  switch (node.op) {
    case Op::all_reduce: {
      const std::int64_t own = attrs.range.cut ? in / attrs.range.num_ranks : in;
      return {attrs.group, "all_reduce", own, all_reduce_bytes(own, n)};
    }
    case Op::all_gather:
      return {attrs.group, "all_gather", out, gather_bytes(out, n)};
    case Op::all_gather_flat:
      return {attrs.group, "all_gather", out, gather_bytes(out, n)};
    case Op::reduce_scatter:
      return {attrs.group, "reduce_scatter", in, gather_bytes(in, n)};
    case Op::reduce_scatter_flat:
      return {attrs.group, "reduce_scatter", in, gather_bytes(in, n)};
    default: {
      // Sharers that are neighbours reduce among themselves; others gather all copies and add theirs up.
      const bool neighbours = attrs.group == Group::heads;
      const std::int64_t held = copied_bytes(attrs, graph.type(node.inputs[0]).dtype);
      return neighbours ? Traffic{attrs.group, "all_reduce", held, all_reduce_bytes(held, n)}
                        : Traffic{attrs.group, "all_gather", held * n, gather_bytes(held * n, n)};
    }
  }
}

}  // namespace

std::int64_t all_reduce_bytes(std::int64_t payload, int num_ranks) {
  return 2 * gather_bytes(payload, num_ranks);
}
std::int64_t gather_bytes(std::int64_t payload, int num_ranks) {
  return payload * (num_ranks - 1) / num_ranks;
}

std::vector<Traffic> node_traffic(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::all_reduce:
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::reduce_copies:
    case Op::reduce_scatter_flat:
    case Op::all_gather_flat:
      return {collective_traffic(graph, node)};
    case Op::linear_cross_entropy:
    case Op::linear_cross_entropy_grad:
      return cross_entropy_traffic(graph, node);
    default:
      return {};
  }
}

OpDef all_reduce_def() {
  return {.infer = infer_same, .in_place_all = true};
}
OpDef all_gather_def() {
  return {.infer = infer_gather};
}
OpDef reduce_scatter_def() {
  return {.infer = infer_shard};
}
OpDef shard_slice_def() {
  return {.infer = infer_shard};
}
OpDef keep_first_def() {
  return {.infer = infer_keep_first};
}
OpDef reduce_copies_def() {
  return {.infer = infer_copies, .in_place_all = true};
}
OpDef reduce_scatter_flat_def() {
  return {.infer = infer_same, .in_place_all = true};
}
OpDef all_gather_flat_def() {
  return {.infer = infer_same, .in_place_all = true};
}

}  // namespace tessera
