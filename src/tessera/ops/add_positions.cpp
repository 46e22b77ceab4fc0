#include "tessera/ops/add_positions.h"

#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

void check_fits(const InferCall& call, std::size_t x, std::size_t table) {
  call.check(call.shape(x).rank() == 3, "input has shape {}, expected [B, T, D]", call.shape(x).text());
  call.check(call.shape(table).rank() == 2 && call.shape(table)[1] == call.shape(x)[2],
             "table {} does not match the width of {}", call.shape(table).text(), call.shape(x).text());
  // A text that is continued says where, and its last block may be padded.
  call.check(call.inputs.size() == 3 || call.shape(table)[0] >= call.shape(x)[1],
             "{} positions are fewer than the sequence length {}", call.shape(table)[0], call.shape(x)[1]);
}

std::vector<ValueType> infer_add_positions(const InferCall& call) {
  call.check_num_inputs(2, 3);
  call.check_floating(0);
  call.check_dtype(1, call.dtype(0));
  check_fits(call, 0, 1);
  if (call.inputs.size() == 3) {
    call.check_dtype(2, DType::i32);
    call.check_shape(2, Shape{1});
  }
  return {call.inputs[0]};
}

void grad_add_positions(GradContext& context) {
  const ValueId dy = context.output_grad(0);
  TS_ASSERT(context.node().inputs.size() == 2);
  if (context.needs_grad(0)) context.set_input_grad(0, dy);
  if (!context.needs_grad(1)) return;
  context.set_accumulator(
      1, context.emit(Op::add_positions_grad, AddPositionsAttrs{}, {context.accumulator(1), dy})[0]);
}

// accumulator[P, D], dy[B, T, D]: row t gains the sum of dy[:, t] over the batch.
std::vector<ValueType> infer_add_positions_grad(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(1);
  call.check_dtype(0, accumulate_dtype(call.dtype(1)));
  check_fits(call, 1, 0);
  return {call.inputs[0]};
}

Cost cost_add_positions(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 1);
}

Attrs local_positions(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  if (strategy.letter != 't') return attrs;
  const Shape& sequence = call.inputs[call.node.op == Op::add_positions ? 0 : 1].shape;
  return AddPositionsAttrs{CutRange{true, call.axis, sequence[1], call.num_ranks}};
}

}  // namespace

OpDef add_positions_def() {
  return {.infer = infer_add_positions,
          .placement = {.operands = "x:btd table:pd first:s -> y:btd",
                        .cuts = "bt",
                        .one_stretch = true,
                        .local_attrs = local_positions},
          .grad = grad_add_positions,
          .cost = cost_add_positions,
          .in_place = {{0, 0}}};
}
OpDef add_positions_grad_def() {
  return {.infer = infer_add_positions_grad,
          .placement = {.operands = "acc^:pd dy:btd -> sum^:pd",
                        .cuts = "bt",
                        .one_stretch = true,
                        .local_attrs = local_positions},
          .cost = cost_add_positions,
          .in_place = {{0, 0, true}}};
}

ValueId add_positions(Graph& graph, std::string name, ValueId x, ValueId table, ValueId first) {
  std::vector<ValueId> inputs = {x, table};
  if (first != kNoValue) inputs.push_back(first);
  return emit(graph, Op::add_positions, Phase::forward, std::move(name), AddPositionsAttrs{},
              std::move(inputs))[0];
}

}  // namespace tessera
