#include "tessera/ops/activation.h"

#include "tessera/ops/elementwise.h"
#include "tessera/ops/slice.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_unary(const InferCall& call) {
  call.check_num_inputs(1, 1);
  call.check_floating(0);
  return {call.inputs[0]};
}

// dy, x -> dx
std::vector<ValueType> infer_unary_grad(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(0);
  call.check_same_type(0, 1);
  return {call.inputs[0]};
}

template <Op kGradOp>
void grad_from_input(GradContext& context) {
  const Node node = context.node();
  context.set_input_grad(0, context.emit(kGradOp, node.attrs, {context.output_grad(0), node.inputs[0]})[0]);
}

std::vector<ValueType> infer_swiglu(const InferCall& call) {
  call.check_num_inputs(1, 1);
  call.check_floating(0);
  call.check(call.shape(0).rank() >= 1 && call.shape(0)[-1] % 2 == 0, "input {} is not a packed [gate | up]",
             call.shape(0).text());
  ValueType out = call.inputs[0];
  out.shape.set(-1, out.shape[-1] / 2);
  return {out};
}

// dy[..., F], gate_up[..., 2 F] -> [..., 2 F]
std::vector<ValueType> infer_swiglu_grad(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(0);
  call.check(call.shape(1).rank() >= 1 && call.shape(1)[-1] % 2 == 0, "input {} is not a packed [gate | up]",
             call.shape(1).text());
  ValueType half = call.inputs[1];
  half.shape.set(-1, half.shape[-1] / 2);
  call.check(call.inputs[0] == half, "gradient is {}, expected {}", call.inputs[0].text(), half.text());
  return {call.inputs[1]};
}

std::vector<ValueId> compose_swiglu(Graph& graph, const Node& node) {
  const std::int64_t width = graph.type(node.inputs[0]).shape[-1] / 2;
  const ValueId gate = slice(graph, node.name + ".gate", node.inputs[0], 0, width);
  const ValueId up = slice(graph, node.name + ".up", node.inputs[0], width, width);
  return {mul(graph, node.name + ".product", silu(graph, node.name + ".silu", gate), up)};
}

Cost cost_activation(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 10);
}

OpDef unary_def(void (*grad)(GradContext&)) {
  return {.infer = infer_unary,
          .placement = {.operands = "x:... -> y:...", .cuts = "."},
          .grad = grad,
          .cost = cost_activation,
          .in_place = {{0, 0}}};
}

OpDef unary_grad_def() {
  return {.infer = infer_unary_grad,
          .placement = {.operands = "dy:... x:... -> dx:...", .cuts = "."},
          .cost = cost_activation,
          .in_place = {{0, 0}}};
}

// Gate and up are cut each on its own, so that a rank's part is packed like the whole.
std::vector<Block> packed_pair(std::int64_t packed_size, int num_ranks) {
  const Block half = even_cut(packed_size / 2, num_ranks)[0];
  return {half, half};
}

std::vector<Block> swiglu_blocks(const PlacementCall& call, char letter, std::size_t operand) {
  if (letter != 'f') return {};
  const std::int64_t packed = call.inputs[0].shape[-1];
  return operand == 0 ? packed_pair(packed, call.num_ranks) : even_cut(packed / 2, call.num_ranks);
}

std::vector<Block> swiglu_grad_blocks(const PlacementCall& call, char letter, std::size_t operand) {
  if (letter != 'f') return {};
  const std::int64_t packed = call.inputs[1].shape[-1];
  return operand == 0 ? even_cut(packed / 2, call.num_ranks) : packed_pair(packed, call.num_ranks);
}

}  // namespace

OpDef silu_def() {
  return unary_def(grad_from_input<Op::silu_grad>);
}
OpDef silu_grad_def() {
  return unary_grad_def();
}
OpDef gelu_def() {
  return unary_def(grad_from_input<Op::gelu_grad>);
}
OpDef gelu_grad_def() {
  return unary_grad_def();
}
OpDef tanh_def() {
  return unary_def(grad_from_input<Op::tanh_grad>);
}
OpDef tanh_grad_def() {
  return unary_grad_def();
}
OpDef swiglu_def() {
  return {.infer = infer_swiglu,
          .placement = {.operands = "x:...f -> y:...f", .cuts = ".f", .blocks = swiglu_blocks},
          .grad = grad_from_input<Op::swiglu_grad>,
          .cost = cost_activation,
          .compose = compose_swiglu};
}
OpDef swiglu_grad_def() {
  return {.infer = infer_swiglu_grad,
          .placement = {.operands = "dy:...f x:...f -> dx:...f", .cuts = ".f", .blocks = swiglu_grad_blocks},
          .cost = cost_activation,
          .in_place = {{1, 0}}};
}

ValueId silu(Graph& graph, std::string name, ValueId x) {
  return emit(graph, Op::silu, Phase::forward, std::move(name), {}, {x})[0];
}
ValueId gelu(Graph& graph, std::string name, ValueId x, bool tanh_approximation) {
  return emit(graph, Op::gelu, Phase::forward, std::move(name), GeluAttrs{tanh_approximation}, {x})[0];
}
ValueId tanh(Graph& graph, std::string name, ValueId x) {
  return emit(graph, Op::tanh, Phase::forward, std::move(name), {}, {x})[0];
}
ValueId swiglu(Graph& graph, std::string name, ValueId gate_up) {
  return emit(graph, Op::swiglu, Phase::forward, std::move(name), {}, {gate_up})[0];
}

}  // namespace tessera
