#include "tessera/ops/optimizer_ops.h"

#include <algorithm>

#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_sum_squares(const InferCall& call) {
  call.check(!call.inputs.empty(), "needs at least one input");
  std::vector<ValueType> sums;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    call.check_floating(i);
    sums.push_back({accumulate_dtype(call.dtype(i)), Shape{}});
  }
  return sums;
}

Cost cost_sum_squares(const Graph& graph, const Node& node) {
  Cost cost = elementwise_cost(graph, node, 0);
  for (ValueId v : node.inputs) cost.flops += 2 * static_cast<double>(graph.type(v).shape.num_elems());
  return cost;
}

Attrs local_sum_squares(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  auto local = attrs.as<SumSquaresAttrs>();
  if (strategy.letter == 'F') local.range = flat_range(call);
  if (strategy.letter == '.' && has_copies(strategy.inputs[0], call.num_ranks)) {
    local.copies = strategy.inputs[0];
    local.copies_axis = call.axis;
    local.copies_ranks = call.num_ranks;
    local.whole = call.inputs[0].shape;
  }
  return local;
}

void check_scalars(const InferCall& call) {
  call.check(!call.inputs.empty(), "needs at least one input");
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    call.check_floating(i);
    call.check_same_type(0, i);
    call.check_shape(i, Shape{});
  }
}

std::vector<ValueType> infer_sum_scalars(const InferCall& call) {
  check_scalars(call);
  return {{DType::f64, Shape{}}};
}

std::vector<ValueType> infer_stack_scalars(const InferCall& call) {
  check_scalars(call);
  return {{call.dtype(0), Shape{static_cast<std::int64_t>(call.inputs.size())}}};
}

std::vector<ValueType> infer_clip_factor(const InferCall& call) {
  call.check_num_inputs(1, 1);
  call.check_floating(0);
  call.check_shape(0, Shape{});
  const ValueType scalar{call.attrs.as<ClipFactorAttrs>().dtype, Shape{}};
  return {scalar, scalar};
}

// param, grad, moment1, moment2, learning rate, step, clip factor[, low halves]
// -> param, moment1, moment2[, low halves]
std::vector<ValueType> infer_adamw(const InferCall& call) {
  call.check_num_inputs(7, 8);
  check_update_operands(call, call.attrs.as<AdamWAttrs>().range,
                        {.states = {2, 3}, .scalars = {4, 6}, .step = 5, .low = 7});
  std::vector<ValueType> outputs = {call.inputs[0], call.inputs[2], call.inputs[3]};
  if (call.inputs.size() == 8) outputs.push_back(call.inputs[7]);
  return outputs;
}

// bf16 is rounded by random bits that an element's place in the shard decides: copies that lie at different
// places would drift apart.
Attrs local_adamw(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  const bool moved = std::ranges::any_of(strategy.inputs[0].blocks, [&](const Block& block) {
    return block.held > 1 && block.copies(call.num_ranks) > 1;
  });
  TS_CHECK(!moved || call.inputs[2].dtype != DType::bf16,
           "optimizer.state_dtype = bf16 does not go with parallel.tp = {} here: ranks would share key and "
           "value heads that each has at another place, and round them differently; expected a tp that "
           "divides model.kv_heads or is a multiple of it",
           call.num_ranks);
  return local_range<AdamWAttrs>(call, attrs, strategy);
}

Cost cost_adamw(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 15);
}

}  // namespace

// On dp every rank sums its own range even of gradients that all have, so that the norm has the same bits
// with and without ZeRO-1; it is also the faster way.
OpDef sum_squares_def() {
  return {.infer = infer_sum_squares,
          .placement = {.operands = "x:... -> sum:",
                        .cuts = ".",
                        .flat = true,
                        .counts_copies_once = true,
                        .local_attrs = local_sum_squares},
          .cost = cost_sum_squares};
}
OpDef sum_scalars_def() {
  return {.infer = infer_sum_scalars, .placement = {.operands = "x+: -> sum:", .sums = true}};
}
OpDef stack_scalars_def() {
  return {.infer = infer_stack_scalars, .placement = {.operands = "x: -> y:n", .sums = true}};
}
OpDef clip_factor_def() {
  return {.infer = infer_clip_factor};
}
OpDef adamw_def() {
  return {.infer = infer_adamw,
          .placement = {.operands = "param:... grad:... m:... v:... lr: step: clip: low:... -> "
                                    "param:... m:... v:... low:...",
                        .cuts = ".",
                        .flat = true,
                        .local_attrs = local_adamw},
          .cost = cost_adamw,
          .in_place = {{0, 0, true}, {2, 1, true}, {3, 2, true}, {7, 3, true}}};
}

ValueId sum_squares(Graph& graph, std::string name, ValueId x) {
  return sums_of_squares(graph, std::move(name), {x})[0];
}

std::vector<ValueId> sums_of_squares(Graph& graph, std::string name, std::vector<ValueId> xs) {
  return emit(graph, Op::sum_squares, Phase::update, std::move(name), SumSquaresAttrs{}, std::move(xs));
}

ValueId sum_scalars(Graph& graph, std::string name, std::vector<ValueId> scalars) {
  return emit(graph, Op::sum_scalars, Phase::update, std::move(name), {}, std::move(scalars))[0];
}

ValueId stack_scalars(Graph& graph, std::string name, std::vector<ValueId> scalars) {
  return emit(graph, Op::stack_scalars, Phase::update, std::move(name), {}, std::move(scalars))[0];
}

ClipValues clip_factor(Graph& graph, std::string name, ValueId sum_of_squares, double max_norm, DType dtype) {
  const auto out = emit(graph, Op::clip_factor, Phase::update, std::move(name),
                        ClipFactorAttrs{max_norm, dtype}, {sum_of_squares});
  return {out[0], out[1]};
}

void adamw(Graph& graph, std::string name, const MomentInputs& in, const AdamWAttrs& attrs) {
  std::vector<ValueId> inputs = {in.param,         in.grad, in.moment1,    in.moment2,
                                 in.learning_rate, in.step, in.clip_factor};
  if (in.low != kNoValue) inputs.push_back(in.low);
  const auto out = emit(graph, Op::adamw, Phase::update, std::move(name), attrs, inputs);
  graph.add_state_update(in.param, out[0]);
  graph.add_state_update(in.moment1, out[1]);
  graph.add_state_update(in.moment2, out[2]);
  if (in.low != kNoValue) graph.add_state_update(in.low, out[3]);
}

}  // namespace tessera
