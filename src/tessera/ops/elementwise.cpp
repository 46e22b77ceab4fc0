#include "tessera/ops/elementwise.h"

namespace tessera {

bool is_suffix(const Shape& small, const Shape& large) {
  if (small.rank() > large.rank()) return false;
  for (int d = 1; d <= small.rank(); ++d) {
    if (small[-d] != large[-d]) return false;
  }
  return true;
}

Cost elementwise_cost(const Graph& graph, const Node& node, int flops_per_elem) {
  Cost cost;
  for (ValueId input : node.inputs) cost.bytes += graph.type(input).num_bytes();
  for (ValueId output : node.outputs) cost.bytes += graph.type(output).num_bytes();
  cost.flops = flops_per_elem * static_cast<double>(graph.type(node.outputs[0]).shape.num_elems());
  return cost;
}

namespace {

std::vector<ValueType> infer_add(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(0);
  call.check_dtype(1, call.dtype(0));
  call.check(is_suffix(call.shape(1), call.shape(0)), "second operand {} must match the innermost dims of {}",
             call.shape(1).text(), call.shape(0).text());
  return {call.inputs[0]};
}

void grad_add(GradContext& context) {
  const ValueId dy = context.output_grad(0);
  const Node node = context.node();
  if (context.needs_grad(0)) context.set_input_grad(0, dy);
  if (!context.needs_grad(1)) return;
  if (context.graph().type(node.inputs[1]) == context.graph().type(dy)) {
    context.set_input_grad(1, dy);
  } else {
    context.set_accumulator(1, context.emit(Op::sum_to, {}, {context.accumulator(1), dy}, "grad_sum")[0]);
  }
}

std::vector<ValueType> infer_mul(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(0);
  call.check_same_type(0, 1);
  return {call.inputs[0]};
}

void grad_mul(GradContext& context) {
  const ValueId dy = context.output_grad(0);
  const Node node = context.node();
  for (std::size_t i : {0u, 1u}) {
    if (!context.needs_grad(i)) continue;
    context.set_input_grad(
        i, context.emit(Op::mul, {}, {dy, node.inputs[1 - i]}, i == 0 ? "grad_a" : "grad_b")[0]);
  }
}

std::vector<ValueType> infer_scale(const InferCall& call) {
  call.check_num_inputs(1, 1);
  call.check_floating(0);
  return {call.inputs[0]};
}

void grad_scale(GradContext& context) {
  context.set_input_grad(0, context.emit(Op::scale, context.node().attrs, {context.output_grad(0)})[0]);
}

std::vector<ValueType> infer_zeros(const InferCall& call) {
  call.check_num_inputs(0, 0);
  return {call.attrs.as<ZerosAttrs>().type};
}

std::vector<ValueType> infer_sum_to(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(1);
  call.check_dtype(0, accumulate_dtype(call.dtype(1)));
  call.check(is_suffix(call.shape(0), call.shape(1)), "accumulator {} must match the innermost dims of {}",
             call.shape(0).text(), call.shape(1).text());
  return {call.inputs[0]};
}

Cost one_flop(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 1);
}

Cost cost_sum_to(const Graph& graph, const Node& node) {
  Cost cost = elementwise_cost(graph, node, 0);
  cost.flops = static_cast<double>(graph.type(node.inputs[1]).shape.num_elems());
  return cost;
}

}  // namespace

OpDef add_def() {
  return {.infer = infer_add,
          .placement = {.operands = "a:... b:... -> y:...", .cuts = ".", .sums = true},
          .grad = grad_add,
          .cost = one_flop,
          .in_place = {{0, 0}}};
}
OpDef mul_def() {
  return {.infer = infer_mul,
          .placement = {.operands = "a:... b:... -> y:...", .cuts = "."},
          .grad = grad_mul,
          .cost = one_flop,
          .in_place = {{0, 0}}};
}
OpDef scale_def() {
  return {.infer = infer_scale,
          .placement = {.operands = "x:... -> y:...", .cuts = ".", .sums = true},
          .grad = grad_scale,
          .cost = one_flop,
          .in_place = {{0, 0}}};
}
OpDef zeros_def() {
  return {.infer = infer_zeros, .placement = {.sums = true}};
}
OpDef sum_to_def() {
  return {.infer = infer_sum_to,
          .placement = {.operands = "acc^:... x:... -> sum^:...", .cuts = ".", .sums = true},
          .cost = cost_sum_to,
          .in_place = {{0, 0, true}}};
}

ValueId add(Graph& graph, std::string name, ValueId a, ValueId b) {
  return emit(graph, Op::add, Phase::forward, std::move(name), {}, {a, b})[0];
}
ValueId mul(Graph& graph, std::string name, ValueId a, ValueId b) {
  return emit(graph, Op::mul, Phase::forward, std::move(name), {}, {a, b})[0];
}
ValueId scale(Graph& graph, std::string name, ValueId x, double factor) {
  return emit(graph, Op::scale, Phase::forward, std::move(name), ScaleAttrs{factor}, {x})[0];
}

}  // namespace tessera
