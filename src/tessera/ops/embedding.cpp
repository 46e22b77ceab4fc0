#include "tessera/ops/embedding.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_embedding(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(0);
  call.check_dtype(1, DType::i32);
  call.check(call.shape(0).rank() == 2, "table has shape {}, expected [vocabulary, width]",
             call.shape(0).text());
  call.check(call.shape(1).rank() < Shape::kMaxDims, "ids have shape {}, expected fewer than {} dims",
             call.shape(1).text(), Shape::kMaxDims);
  ValueType out{call.dtype(0), call.shape(1)};
  out.shape.push_back(call.shape(0)[1]);
  return {out};
}

void grad_embedding(GradContext& context) {
  const Node node = context.node();
  const ValueId acc = context.accumulator(0);
  context.set_accumulator(
      0, context.emit(Op::embedding_grad, node.attrs, {acc, node.inputs[1], context.output_grad(0)})[0]);
}

// accumulator[V, D], ids[...], dy[..., D]: adds each row of dy to the row its id names.
std::vector<ValueType> infer_embedding_grad(const InferCall& call) {
  call.check_num_inputs(3, 3);
  call.check_dtype(1, DType::i32);
  call.check_floating(2);
  call.check_dtype(0, accumulate_dtype(call.dtype(2)));
  call.check(call.shape(0).rank() == 2, "accumulator has shape {}, expected [vocabulary, width]",
             call.shape(0).text());
  call.check(call.shape(1).rank() < Shape::kMaxDims, "ids have shape {}, expected fewer than {} dims",
             call.shape(1).text(), Shape::kMaxDims);
  Shape rows = call.shape(1);
  rows.push_back(call.shape(0)[1]);
  call.check_shape(2, rows);
  return {call.inputs[0]};
}

// Only the rows that are named move, not the whole table.
Cost cost_embedding(const Graph& graph, const Node& node) {
  return {0, 2 * graph.type(node.outputs[0]).num_bytes() + graph.type(node.inputs[1]).num_bytes()};
}

Cost cost_embedding_grad(const Graph& graph, const Node& node) {
  const ValueType& dy = graph.type(node.inputs[2]);
  return {static_cast<double>(dy.shape.num_elems()), 3 * dy.num_bytes()};
}

// Input 0 is the table, or its accumulator.
Attrs local_embedding(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  if (strategy.letter != 'v') return attrs;
  auto local = attrs.as<EmbeddingAttrs>();
  local.vocabulary = {true, call.axis, call.inputs[0].shape[0], call.num_ranks};
  return local;
}

}  // namespace

OpDef embedding_def() {
  return {.infer = infer_embedding,
          .placement = {.operands = "table:vd ids:... -> y:...d",
                        .cuts = "v.",
                        .one_stretch = true,
                        .local_attrs = local_embedding},
          .grad = grad_embedding,
          .cost = cost_embedding};
}
OpDef embedding_grad_def() {
  return {.infer = infer_embedding_grad,
          .placement = {.operands = "acc^:vd ids:... dy:...d -> sum^:vd",
                        .cuts = "v.",
                        .one_stretch = true,
                        .local_attrs = local_embedding},
          .cost = cost_embedding_grad,
          .in_place = {{0, 0, true}}};
}

ValueId embedding(Graph& graph, std::string name, ValueId table, ValueId ids, std::int64_t padding_id) {
  return emit(graph, Op::embedding, Phase::forward, std::move(name), EmbeddingAttrs{{}, padding_id},
              {table, ids})[0];
}

}  // namespace tessera
