#include "tessera/ops/softmax.h"

#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_softmax(const InferCall& call) {
  call.check_num_inputs(1, 1);
  call.check_floating(0);
  call.check_rank_at_least(0, 1);
  return {call.inputs[0]};
}

void grad_softmax(GradContext& context) {
  const ValueId y = context.node().outputs[0];
  context.set_input_grad(0, context.emit(Op::softmax_grad, {}, {context.output_grad(0), y})[0]);
}

std::vector<ValueType> infer_softmax_grad(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(0);
  call.check_same_type(0, 1);
  call.check_rank_at_least(0, 1);
  return {call.inputs[0]};
}

std::vector<ValueType> infer_causal_mask(const InferCall& call) {
  call.check_num_inputs(0, 0);
  const ValueType& type = call.attrs.as<CausalMaskAttrs>().type;
  call.check(type.dtype != DType::i32 && type.shape.rank() == 2 && type.shape[0] == type.shape[1],
             "mask is {}, expected a floating [T, T]", type.text());
  return {type};
}

Cost cost_softmax(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 4);
}

}  // namespace

OpDef softmax_def() {
  return {.infer = infer_softmax,
          .placement = {.operands = "x:...d -> y:...d", .cuts = "."},
          .grad = grad_softmax,
          .cost = cost_softmax,
          .in_place = {{0, 0}}};
}
OpDef softmax_grad_def() {
  return {.infer = infer_softmax_grad,
          .placement = {.operands = "dy:...d y:...d -> dx:...d", .cuts = "."},
          .cost = cost_softmax,
          .in_place = {{0, 0}}};
}
OpDef causal_mask_def() {
  return {.infer = infer_causal_mask, .constant = true};
}

ValueId softmax(Graph& graph, std::string name, ValueId x) {
  return emit(graph, Op::softmax, Phase::forward, std::move(name), {}, {x})[0];
}

ValueId causal_mask(Graph& graph, std::string name, DType dtype, std::int64_t seq_len) {
  return emit(graph, Op::causal_mask, Phase::init, std::move(name),
              CausalMaskAttrs{{dtype, Shape{seq_len, seq_len}}}, {})[0];
}

}  // namespace tessera
