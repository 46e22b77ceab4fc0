#include "tessera/ops/sgd.h"

#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

// param, grad, momentum, learning rate, clip factor[, low halves] -> param, momentum[, low halves]
std::vector<ValueType> infer_sgd(const InferCall& call) {
  call.check_num_inputs(5, 6);
  check_update_operands(call, call.attrs.as<SgdAttrs>().range, {.states = {2}, .scalars = {3, 4}, .low = 5});
  std::vector<ValueType> outputs = {call.inputs[0], call.inputs[2]};
  if (call.inputs.size() == 6) outputs.push_back(call.inputs[5]);
  return outputs;
}

Cost cost_sgd(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 7);
}

}  // namespace

OpDef sgd_def() {
  return {.infer = infer_sgd,
          .placement = {.operands = "param:... grad:... momentum:... lr: clip: low:... -> "
                                    "param:... momentum:... low:...",
                        .cuts = ".",
                        .flat = true,
                        .local_attrs = local_range<SgdAttrs>},
          .cost = cost_sgd,
          .in_place = {{0, 0, true}, {2, 1, true}, {5, 2, true}}};
}

void sgd(Graph& graph, std::string name, const SgdInputs& in, const SgdAttrs& attrs) {
  std::vector<ValueId> inputs = {in.param, in.grad, in.momentum, in.learning_rate, in.clip_factor};
  if (in.low != kNoValue) inputs.push_back(in.low);
  const auto out = emit(graph, Op::sgd, Phase::update, std::move(name), attrs, inputs);
  graph.add_state_update(in.param, out[0]);
  graph.add_state_update(in.momentum, out[1]);
  if (in.low != kNoValue) graph.add_state_update(in.low, out[2]);
}

}  // namespace tessera
