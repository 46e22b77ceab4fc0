#include "tessera/ops/layer_norm.h"

#include "tessera/ops/elementwise.h"
#include "tessera/ops/row_statistics.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_layer_norm(const InferCall& call) {
  call.check_num_inputs(3, 3);
  // Also for padded rows of zeros, whose 1 / 0 would spread.
  const double eps = call.attrs.as<LayerNormAttrs>().eps;
  call.check(eps > 0, "eps is {}, expected more than 0", eps);
  call.check_floating(0);
  call.check_rank_at_least(0, 1);
  for (std::size_t i : {1u, 2u}) {
    call.check_dtype(i, call.dtype(0));
    call.check_shape(i, Shape{call.shape(0)[-1]});
  }
  const ValueType rows = row_statistics(call.inputs[0]);
  return {call.inputs[0], rows, rows};
}

void grad_layer_norm(GradContext& context) {
  const Node node = context.node();
  const ValueId weight_acc = context.accumulator(1), bias_acc = context.accumulator(2);
  const auto grads = context.emit(Op::layer_norm_grad, {},
                                  {context.output_grad(0), node.inputs[0], node.inputs[1], node.outputs[1],
                                   node.outputs[2], weight_acc, bias_acc});
  if (context.needs_grad(0)) context.set_input_grad(0, grads[0]);
  context.set_accumulator(1, grads[1]);
  context.set_accumulator(2, grads[2]);
}

// dy, x, weight, mean, 1/deviation, accumulators of weight and bias -> dx, accumulators
std::vector<ValueType> infer_layer_norm_grad(const InferCall& call) {
  call.check_num_inputs(7, 7);
  call.check_floating(0);
  call.check_same_type(0, 1);
  call.check_rank_at_least(0, 1);
  call.check_dtype(2, call.dtype(0));
  call.check_shape(2, Shape{call.shape(0)[-1]});
  const ValueType rows = row_statistics(call.inputs[0]);
  call.check(call.inputs[3] == rows && call.inputs[4] == rows, "statistics are {} and {}, expected {}",
             call.inputs[3].text(), call.inputs[4].text(), rows.text());
  for (std::size_t i : {5u, 6u}) {
    call.check_dtype(i, accumulate_dtype(call.dtype(0)));
    call.check_shape(i, call.shape(2));
  }
  return {call.inputs[0], call.inputs[5], call.inputs[6]};
}

Cost cost_layer_norm(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 7);
}
Cost cost_layer_norm_grad(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 14);
}

}  // namespace

OpDef layer_norm_def() {
  return {.infer = infer_layer_norm,
          .placement = {.operands = "x:...d w:d b:d -> y:...d m:... r:...", .cuts = "."},
          .grad = grad_layer_norm,
          .cost = cost_layer_norm};
}
OpDef layer_norm_grad_def() {
  return {
      .infer = infer_layer_norm_grad,
      .placement = {.operands = "dy:...d x:...d w:d m:... r:... wacc^:d bacc^:d -> dx:...d wsum^:d bsum^:d",
                    .cuts = "."},
      .cost = cost_layer_norm_grad,
      .in_place = {{0, 0}, {5, 1, true}, {6, 2, true}}};
}

ValueId layer_norm(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId bias, double eps) {
  return emit(graph, Op::layer_norm, Phase::forward, std::move(name), LayerNormAttrs{eps},
              {x, weight, bias})[0];
}

}  // namespace tessera
