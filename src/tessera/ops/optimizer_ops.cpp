#include "tessera/ops/optimizer_ops.h"

#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

std::vector<ValueType> infer_sum_squares(const InferCall& call) {
  call.check_num_inputs(1, 1);
  call.check_floating(0);
  return {{accumulate_dtype(call.dtype(0)), Shape{}}};
}

Cost cost_sum_squares(const Graph& graph, const Node& node) {
  Cost cost = elementwise_cost(graph, node, 0);
  cost.flops = 2 * graph.type(node.inputs[0]).shape.num_elems();
  return cost;
}

Attrs local_sum_squares(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  auto local = attrs.as<SumSquaresAttrs>();
  if (strategy.letter == 'F') local.range = {true, call.axis, call.num_ranks};
  if (strategy.letter == '.' && has_copies(strategy.inputs[0], call.num_ranks)) {
    local.copies = strategy.inputs[0];
    local.copies_axis = call.axis;
    local.copies_ranks = call.num_ranks;
    local.whole = call.inputs[0].shape;
  }
  return local;
}

std::vector<ValueType> infer_sum_scalars(const InferCall& call) {
  call.check(!call.inputs.empty(), "needs at least one input");
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    call.check_floating(i);
    call.check_same_type(0, i);
    call.check_shape(i, Shape{});
  }
  return {{DType::f64, Shape{}}};
}

std::vector<ValueType> infer_clip_factor(const InferCall& call) {
  call.check_num_inputs(1, 1);
  call.check_floating(0);
  call.check_shape(0, Shape{});
  const ValueType scalar{call.attrs.as<ClipFactorAttrs>().dtype, Shape{}};
  return {scalar, scalar};
}

// param, grad, moment1, moment2, learning rate, step, clip factor[, master]
// -> param, cleared grad, moment1, moment2[, master]
std::vector<ValueType> infer_adamw(const InferCall& call) {
  call.check_num_inputs(7, 8);
  call.check_floating(0);
  const FlatRange& range = call.attrs.as<AdamWAttrs>().range;
  const ValueType sums{accumulate_dtype(call.dtype(0)), call.shape(0)};
  const ValueType state{
      sums.dtype, range.cut ? Shape{flat_range_size(sums.shape.num_elems(), range.num_ranks)} : sums.shape};
  const bool has_master = call.inputs.size() == 8;
  call.check(call.inputs[1] == sums, "gradient is {}, expected {}", call.inputs[1].text(), sums.text());
  for (std::size_t i : {2u, 3u}) {
    call.check(call.inputs[i] == state, "input {} is {}, expected {}", i, call.inputs[i].text(),
               state.text());
  }
  call.check_dtype(5, DType::i32);
  for (std::size_t i : {4u, 6u}) call.check_dtype(i, state.dtype);
  for (std::size_t i : {4u, 5u, 6u}) call.check_shape(i, Shape{});
  call.check(has_master == (call.dtype(0) == DType::bf16),
             "a bf16 parameter and only that needs a master copy");
  std::vector<ValueType> outputs = {call.inputs[0], call.inputs[1], call.inputs[2], call.inputs[3]};
  if (has_master) {
    call.check(call.inputs[7] == state, "master is {}, expected {}", call.inputs[7].text(), state.text());
    outputs.push_back(state);
  }
  return outputs;
}

Cost cost_adamw(const Graph& graph, const Node& node) {
  return elementwise_cost(graph, node, 15);
}

Attrs local_adamw(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  if (strategy.letter != 'F') return attrs;
  auto local = attrs.as<AdamWAttrs>();
  local.range = {true, call.axis, call.num_ranks};
  return local;
}

}  // namespace

// On dp every rank sums its own range even of gradients that all have, so that the norm has the same bits
// with and without ZeRO-1; it is also the faster way.
OpDef sum_squares_def() {
  return {
      .infer = infer_sum_squares,
      .placement = {.operands = "x:... -> sum:", .cuts = ".", .flat = true, .local_attrs = local_sum_squares},
      .cost = cost_sum_squares};
}
OpDef sum_scalars_def() {
  return {.infer = infer_sum_scalars, .placement = {.operands = "x+: -> sum:", .sums = true}};
}
OpDef clip_factor_def() {
  return {.infer = infer_clip_factor};
}
OpDef adamw_def() {
  return {.infer = infer_adamw,
          .placement = {.operands = "param:... grad:... m:... v:... lr: step: clip: master:... -> "
                                    "param:... grad:... m:... v:... master:...",
                        .cuts = ".",
                        .flat = true,
                        .local_attrs = local_adamw},
          .cost = cost_adamw,
          .in_place = {{0, 0, true}, {1, 1, true}, {2, 2, true}, {3, 3, true}, {7, 4, true}}};
}

ValueId sum_squares(Graph& graph, std::string name, ValueId x) {
  return emit(graph, Op::sum_squares, Phase::update, std::move(name), SumSquaresAttrs{}, {x})[0];
}

ValueId sum_scalars(Graph& graph, std::string name, std::vector<ValueId> scalars) {
  return emit(graph, Op::sum_scalars, Phase::update, std::move(name), {}, std::move(scalars))[0];
}

ClipValues clip_factor(Graph& graph, std::string name, ValueId sum_of_squares, double max_norm, DType dtype) {
  const auto out = emit(graph, Op::clip_factor, Phase::update, std::move(name),
                        ClipFactorAttrs{max_norm, dtype}, {sum_of_squares});
  return {out[0], out[1]};
}

void adamw(Graph& graph, std::string name, const AdamWInputs& in, const AdamWAttrs& attrs) {
  std::vector<ValueId> inputs = {in.param,         in.grad, in.moment1,    in.moment2,
                                 in.learning_rate, in.step, in.clip_factor};
  if (in.master != kNoValue) inputs.push_back(in.master);
  const auto out = emit(graph, Op::adamw, Phase::update, std::move(name), attrs, inputs);
  for (std::size_t i = 0; i < 4; ++i) graph.add_state_update(inputs[i], out[i]);
  if (in.master != kNoValue) graph.add_state_update(in.master, out[4]);
}

}  // namespace tessera
