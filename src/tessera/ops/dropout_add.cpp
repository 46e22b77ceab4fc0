#include "tessera/ops/dropout_add.h"

#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

void check_rate_and_key(const InferCall& call, std::size_t key) {
  const double rate = call.attrs.as<DropoutAttrs>().rate;
  call.check(rate >= 0 && rate < 1, "rate is {}, expected 0 <= rate < 1", rate);
  call.check(call.inputs[key] == kDropoutKeyType, "key is {}, expected {}", call.inputs[key].text(),
             kDropoutKeyType.text());
}

// x, key[, residual]
std::vector<ValueType> infer_dropout_add(const InferCall& call) {
  call.check_num_inputs(2, 3);
  call.check_floating(0);
  check_rate_and_key(call, 1);
  if (call.inputs.size() == 3) call.check_same_type(0, 2);
  return {call.inputs[0]};
}

void grad_dropout_add(GradContext& context) {
  const Node node = context.node();
  const ValueId dy = context.output_grad(0);
  if (context.needs_grad(0)) {
    context.set_input_grad(0, context.emit(Op::dropout_grad, node.attrs, {dy, node.inputs[1]})[0]);
  }
  if (node.inputs.size() == 3 && context.needs_grad(2)) context.set_input_grad(2, dy);
}

std::vector<ValueType> infer_dropout_grad(const InferCall& call) {
  call.check_num_inputs(2, 2);
  call.check_floating(0);
  check_rate_and_key(call, 1);
  return {call.inputs[0]};
}

// Ten rounds of Philox for four elements.
Cost cost_dropout(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 20);
}

Attrs local_dropout(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  const bool cuts_batch = strategy.letter == '.' && strategy.dim == 0;
  // The kernels count from the dp rank's first sequence.
  TS_CHECK(
      call.axis != Axis::dp || cuts_batch,
      "[dropout] {}: its operand does not lie cut by the batch on dp = {}, so each rank would drop other "
      "elements of it; dropout goes with activations, whose first dim is the batch, or with dp = 1",
      call.node.name, call.num_ranks);
  if (strategy.letter != '.' || call.axis == Axis::dp) return attrs;
  auto local = attrs.as<DropoutAttrs>();
  TS_CHECK(!local.cut.cut, "[dropout] {}: dims {} and {} are both cut, expected one beside the batch",
           call.node.name, local.cut_dim, strategy.dim);
  local.cut_dim = strategy.dim;
  local.cut = {true, call.axis, call.inputs[0].shape[strategy.dim], call.num_ranks};
  return local;
}

}  // namespace

OpDef dropout_add_def() {
  return {.infer = infer_dropout_add,
          .placement = {.operands = "x:... key:k residual:... -> y:...",
                        .cuts = ".",
                        .one_stretch = true,
                        .local_attrs = local_dropout},
          .grad = grad_dropout_add,
          .cost = cost_dropout,
          .in_place = {{0, 0}}};
}
OpDef dropout_grad_def() {
  return {.infer = infer_dropout_grad,
          .placement = {.operands = "dy:... key:k -> dx:...",
                        .cuts = ".",
                        .one_stretch = true,
                        .local_attrs = local_dropout},
          .cost = cost_dropout};
}

ValueId dropout_add(Graph& graph, std::string name, ValueId x, ValueId residual, ValueId key,
                    DropoutAttrs attrs) {
  std::vector<ValueId> inputs = {x, key};
  if (residual != kNoValue) inputs.push_back(residual);
  return emit(graph, Op::dropout_add, Phase::forward, std::move(name), attrs, std::move(inputs))[0];
}

}  // namespace tessera
