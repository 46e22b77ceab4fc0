#include "tessera/ops/linear.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_linear(const InferCall& call) {
  call.check_num_inputs(2, 3);
  call.check_floating(0);
  call.check_dtype(1, call.dtype(0));
  call.check(call.shape(1).rank() == 2, "weight has shape {}, expected [out, in]", call.shape(1).text());
  call.check(call.shape(0).rank() >= 1 && call.shape(0)[-1] == call.shape(1)[1],
             "input {} and weight {} differ in the inner dim", call.shape(0).text(), call.shape(1).text());
  if (call.inputs.size() == 3) {
    call.check_dtype(2, call.dtype(0));
    call.check_shape(2, Shape{call.shape(1)[0]});
  }
  ValueType out = call.inputs[0];
  out.shape.set(-1, call.shape(1)[0]);
  return {out};
}

void grad_linear(GradContext& context) {
  const ValueId dy = context.output_grad(0);
  const Node node = context.node();
  if (context.needs_grad(0)) {
    context.set_input_grad(0, context.emit(Op::linear_grad_input, {}, {dy, node.inputs[1]}, "grad_input")[0]);
  }
  if (context.needs_grad(1)) {
    const ValueId acc = context.accumulator(1);
    context.set_accumulator(
        1, context.emit(Op::linear_grad_weight, {}, {acc, dy, node.inputs[0]}, "grad_weight")[0]);
  }
  if (node.inputs.size() == 3 && context.needs_grad(2)) {
    context.set_accumulator(2, context.emit(Op::sum_to, {}, {context.accumulator(2), dy}, "grad_bias")[0]);
  }
}

// dy[..., N], weight[N, K] -> dx[..., K]
std::vector<ValueType> infer_grad_input(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(0);
  call.check_dtype(1, call.dtype(0));
  call.check(call.shape(1).rank() == 2, "weight has shape {}, expected [out, in]", call.shape(1).text());
  call.check(call.shape(0).rank() >= 1 && call.shape(0)[-1] == call.shape(1)[0],
             "gradient {} and weight {} differ in the outer dim", call.shape(0).text(), call.shape(1).text());
  ValueType out = call.inputs[0];
  out.shape.set(-1, call.shape(1)[1]);
  return {out};
}

// accumulator[N, K], dy[..., N], x[..., K] -> accumulator + dy^T x; the accumulator may be bf16, like dy
std::vector<ValueType> infer_grad_weight(const InferCall& call) {
  call.check_num_inputs(3, 3);
  call.check_floating(1);
  call.check_dtype(2, call.dtype(1));
  if (call.dtype(0) != call.dtype(1)) call.check_dtype(0, accumulate_dtype(call.dtype(1)));
  call.check_rank_at_least(1, 1);
  call.check_rank_at_least(2, 1);
  call.check(call.shape(1).num_rows() == call.shape(2).num_rows(), "gradient {} and input {} differ in rows",
             call.shape(1).text(), call.shape(2).text());
  call.check_shape(0, Shape{call.shape(1)[-1], call.shape(2)[-1]});
  return {call.inputs[0]};
}

// Of each row of `rows_of` with each of the weight's elements, an addition and a product.
Cost product_cost(const Graph& graph, const Node& node, ValueId rows_of, ValueId weight) {
  Cost cost;
  cost.flops = 2 * static_cast<double>(graph.type(rows_of).shape.num_rows()) *
               static_cast<double>(graph.type(weight).shape.num_elems());
  for (ValueId input : node.inputs) cost.bytes += graph.type(input).num_bytes();
  for (ValueId output : node.outputs) cost.bytes += graph.type(output).num_bytes();
  return cost;
}

Cost cost_linear(const Graph& graph, const Node& node) {
  return product_cost(graph, node, node.inputs[0], node.inputs[1]);
}

Cost cost_grad_weight(const Graph& graph, const Node& node) {
  return product_cost(graph, node, node.inputs[1], node.inputs[0]);
}

}  // namespace

OpDef linear_def() {
  return {.infer = infer_linear,
          .placement = {.operands = "x:...k w:nk b+:n -> y:...n", .cuts = "nk."},
          .grad = grad_linear,
          .cost = cost_linear};
}
OpDef linear_grad_input_def() {
  return {.infer = infer_grad_input,
          .placement = {.operands = "dy:...n w:nk -> dx:...k", .cuts = "nk."},
          .cost = cost_linear};
}
OpDef linear_grad_weight_def() {
  return {.infer = infer_grad_weight,
          .placement = {.operands = "acc^:nk dy:...n x:...k -> sum^:nk", .cuts = "nk."},
          .cost = cost_grad_weight,
          .in_place = {{0, 0, true}}};
}

ValueId linear(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId bias) {
  std::vector<ValueId> inputs = {x, weight};
  if (bias != kNoValue) inputs.push_back(bias);
  return emit(graph, Op::linear, Phase::forward, std::move(name), {}, std::move(inputs))[0];
}

}  // namespace tessera
