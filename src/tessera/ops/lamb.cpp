#include "tessera/ops/lamb.h"

#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

// param, grad, moment1, moment2, step, clip factor[, low halves] -> direction, moment1, moment2
std::vector<ValueType> infer_lamb_direction(const InferCall& call) {
  call.check_num_inputs(6, 7);
  check_update_operands(call, call.attrs.as<LambDirectionAttrs>().range,
                        {.states = {2, 3}, .scalars = {5}, .step = 4, .low = 6});
  return {call.inputs[1], call.inputs[2], call.inputs[3]};
}

// param, direction, learning rate, squares[, low halves] -> param[, low halves]
std::vector<ValueType> infer_lamb(const InferCall& call) {
  call.check_num_inputs(4, 5);
  const auto& attrs = call.attrs.as<LambAttrs>();
  check_update_operands(call, attrs.range, {.states = {}, .scalars = {2}, .low = 4});
  call.check_dtype(3, call.dtype(1));
  call.check(call.shape(3).rank() == 1 && attrs.index >= 0 && attrs.index + 2 <= call.shape(3)[0],
             "squares has shape {}, expected a vector with elements {} and {}", call.shape(3).text(),
             attrs.index, attrs.index + 1);
  std::vector<ValueType> outputs = {call.inputs[0]};
  if (call.inputs.size() == 5) outputs.push_back(call.inputs[4]);
  return outputs;
}

Cost cost_lamb_direction(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 14);
}
Cost cost_lamb(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 2);
}

}  // namespace

OpDef lamb_direction_def() {
  return {.infer = infer_lamb_direction,
          .placement = {.operands = "param:... grad:... m:... v:... step: clip: low:... -> "
                                    "direction:... m:... v:...",
                        .cuts = ".",
                        .flat = true,
                        .local_attrs = local_range<LambDirectionAttrs>},
          .cost = cost_lamb_direction,
          .in_place = {{1, 0, true}, {2, 1, true}, {3, 2, true}}};
}
OpDef lamb_def() {
  return {.infer = infer_lamb,
          .placement = {.operands = "param:... direction:... lr: squares:n low:... -> "
                                    "param:... low:...",
                        .cuts = ".",
                        .flat = true,
                        .local_attrs = local_range<LambAttrs>},
          .cost = cost_lamb,
          .in_place = {{0, 0, true}, {4, 1, true}}};
}

ValueId lamb_direction(Graph& graph, std::string name, const MomentInputs& in,
                       const LambDirectionAttrs& attrs) {
  std::vector<ValueId> inputs = {in.param, in.grad, in.moment1, in.moment2, in.step, in.clip_factor};
  if (in.low != kNoValue) inputs.push_back(in.low);
  const auto out = emit(graph, Op::lamb_direction, Phase::update, std::move(name), attrs, inputs);
  graph.add_state_update(in.grad, out[0]);
  graph.add_state_update(in.moment1, out[1]);
  graph.add_state_update(in.moment2, out[2]);
  return out[0];
}

void lamb(Graph& graph, std::string name, const MomentInputs& in, ValueId direction, ValueId squares,
          const LambAttrs& attrs) {
  std::vector<ValueId> inputs = {in.param, direction, in.learning_rate, squares};
  if (in.low != kNoValue) inputs.push_back(in.low);
  const auto out = emit(graph, Op::lamb, Phase::update, std::move(name), attrs, inputs);
  graph.add_state_update(in.param, out[0]);
  if (in.low != kNoValue) graph.add_state_update(in.low, out[1]);
}

}  // namespace tessera
