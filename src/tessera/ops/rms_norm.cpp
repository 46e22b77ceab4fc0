#include "tessera/ops/rms_norm.h"

#include "tessera/ops/elementwise.h"
#include "tessera/ops/row_statistics.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_rms_norm(const InferCall& call) {
  call.check_num_inputs(2, 2);
  // Also for padded rows of zeros, whose 1 / 0 would spread.
  const double eps = call.attrs.as<RmsNormAttrs>().eps;
  call.check(eps > 0, "eps is {}, expected more than 0", eps);
  call.check_floating(0);
  call.check_rank_at_least(0, 1);
  call.check_dtype(1, call.dtype(0));
  call.check_shape(1, Shape{call.shape(0)[-1]});
  return {call.inputs[0], row_statistics(call.inputs[0])};
}

void grad_rms_norm(GradContext& context) {
  const Node node = context.node();
  const ValueId acc = context.accumulator(1);
  const auto grads = context.emit(
      Op::rms_norm_grad, {}, {context.output_grad(0), node.inputs[0], node.inputs[1], node.outputs[1], acc});
  if (context.needs_grad(0)) context.set_input_grad(0, grads[0]);
  context.set_accumulator(1, grads[1]);
}

// dy, x, weight, 1/rms, accumulator of the weight -> dx, accumulator
std::vector<ValueType> infer_rms_norm_grad(const InferCall& call) {
  call.check_num_inputs(5, 5);
  call.check_floating(0);
  call.check_same_type(0, 1);
  call.check_rank_at_least(0, 1);
  call.check_dtype(2, call.dtype(0));
  call.check_shape(2, Shape{call.shape(0)[-1]});
  const ValueType rows = row_statistics(call.inputs[0]);
  call.check(call.inputs[3] == rows, "statistics are {}, expected {}", call.inputs[3].text(), rows.text());
  call.check_dtype(4, accumulate_dtype(call.dtype(0)));
  call.check_shape(4, call.shape(2));
  return {call.inputs[0], call.inputs[4]};
}

Cost cost_rms_norm(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 4);
}
Cost cost_rms_norm_grad(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 10);
}

}  // namespace

OpDef rms_norm_def() {
  return {.infer = infer_rms_norm,
          .placement = {.operands = "x:...d w:d -> y:...d r:...", .cuts = "."},
          .grad = grad_rms_norm,
          .cost = cost_rms_norm};
}
OpDef rms_norm_grad_def() {
  return {.infer = infer_rms_norm_grad,
          .placement = {.operands = "dy:...d x:...d w:d r:... acc^:d -> dx:...d sum^:d", .cuts = "."},
          .cost = cost_rms_norm_grad,
          .in_place = {{0, 0}, {4, 1, true}}};
}

ValueId rms_norm(Graph& graph, std::string name, ValueId x, ValueId weight, double eps) {
  return emit(graph, Op::rms_norm, Phase::forward, std::move(name), RmsNormAttrs{eps}, {x, weight})[0];
}

}  // namespace tessera
