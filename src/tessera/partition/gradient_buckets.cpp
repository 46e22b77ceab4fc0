#include "tessera/partition/gradient_buckets.h"

namespace tessera {

void GradientBuckets::reduce_gradients() {
  if (reduced_) return;
  reduced_ = true;
  check_last_links();
  std::vector<ValueId> accumulators, shared;
  for (ValueId v = 0; v < whole_.num_values(); ++v) {
    if (whole_.value(v).role != Role::gradient) continue;
    // The update reads what the last micro-batch left in the accumulator's place.
    accumulators.push_back(v);
    if (options_.mesh.pp > 1 && stages(v).size() > 1) shared.push_back(v);
  }
  sum_over_tp(accumulators);
  sum_over_dp(accumulators);
  for (ValueId v : shared) {
    const std::vector<int>& on = stages(v);
    const int last = options_.stage_of_layer.back();
    TS_CHECK(
        on.size() == 2 && on[0] == 0 && on[1] == last,
        "parameter {} is used on {} pipeline stages, {} to {}; expected one, or the first and the last, {}",
        parameter_of_state(whole_.value(v)), on.size(), on.front(), on.back(), last);
    run_bucketed(Op::all_reduce, Axis::pp, Group::ends, 2, replicated(), {v}, "tied gradient");
  }
}

void GradientBuckets::check_last_links() const {
  for (const StateUpdate& update : whole_.state_updates()) {
    if (whole_.value(update.before).role != Role::gradient) continue;
    // Optimizers may use its place for something else.
    if (whole_.node(whole_.value(update.after).producer).phase == Phase::update) continue;
    for (Axis axis : kCutAxes) {
      const Placement &first = *local_.placement(update.before, axis),
                      &last = *local_.placement(update.after, axis);
      TS_CHECK(first == last, "accumulator {} begins as {} on {}, but {}, the last to add to it, leaves {}",
               whole_.value(update.before).name, first.text(), axis_name(axis),
               whole_.value(update.after).name, last.text());
    }
  }
}

void GradientBuckets::sum_over_tp(const std::vector<ValueId>& accumulators) {
  if (options_.mesh.tp == 1) return;
  std::vector<ValueId> partial;
  for (ValueId v : accumulators) {
    const Placement at = *local_.placement(v, Axis::tp);
    if (at.is_partial()) partial.push_back(v);
    if (!at.is_shard() || at.copies_agree) continue;
    Placed summed = local_.placed(v);
    summed.on(Axis::tp).copies_agree = true;
    local_.set(v,
               local_.sum_copies(v, local_.local(v), at, Phase::update,
                                 whole_.value(v).name + " has a term on every rank that shares a head"),
               summed);
  }
  run_bucketed(Op::all_reduce, Axis::tp, Group::tp, options_.mesh.tp, replicated(), partial, "gradients");
}

void GradientBuckets::sum_over_dp(const std::vector<ValueId>& accumulators) {
  const Mesh& mesh = options_.mesh;
  if (mesh.dp == 1) return;
  std::vector<ValueId> partial;
  for (ValueId v : accumulators) {
    if (local_.placement(v, Axis::dp)->is_partial()) partial.push_back(v);
  }
  if (!options_.zero1) {
    run_bucketed(Op::all_reduce, Axis::dp, Group::dp, mesh.dp, replicated(), partial, "gradients");
    return;
  }
  run_bucketed(Op::reduce_scatter_flat, Axis::dp, mesh.has_copies() ? Group::ranges : Group::dp,
               mesh.ranges(), flat_shard(), partial, "gradients");
  if (mesh.has_copies()) {
    run_bucketed(Op::all_reduce, Axis::dp, Group::copies, mesh.dp / mesh.ranges(), flat_shard(), partial,
                 "gradients");
  }
}

void GradientBuckets::gather_weights() {
  if (options_.mesh.dp == 1) return;
  std::vector<ValueId> weights;
  for (const StateUpdate& update : whole_.state_updates()) {
    const bool weight = whole_.value(update.before).role == Role::parameter;
    if (weight && local_.placement(update.after, Axis::dp)->is_flat()) weights.push_back(update.after);
  }
  run_bucketed(Op::all_gather_flat, Axis::dp, options_.mesh.has_copies() ? Group::ranges : Group::dp,
               options_.mesh.ranges(), replicated(), weights, "weights");
}

void GradientBuckets::run_bucketed(Op op, Axis axis, Group group, int num_ranks, const Placement& to,
                                   const std::vector<ValueId>& values, std::string_view what) {
  const auto stages_of = [&](ValueId v) {
    const NodeId producer = whole_.value(v).producer;
    // An updated weight is named after its node, whose first input is the parameter.
    return producer == kNoNode ? stages(v) : stages_.at(whole_.value(whole_.node(producer).inputs[0]).name);
  };
  for (std::size_t first = 0; first < values.size();) {
    std::vector<ValueId> inputs;
    std::int64_t bytes = 0;
    std::size_t last = first;
    while (last < values.size() && stages_of(values[last]) == stages_of(values[first])) {
      const std::int64_t more = local_.graph().type(local_.local(values[last])).num_bytes();
      if (!inputs.empty() && bytes + more > options_.bucket_bytes) break;
      inputs.push_back(local_.local(values[last++]));
      bytes += more;
    }
    const std::string name = fmt::format("{}.{}.{}.{}", what, op_name(op), group_name(group), num_buckets_++);
    CollectiveAttrs attrs{.group = group, .num_ranks = num_ranks};
    attrs.why = fmt::format("{} {}, {} to {}", inputs.size(), what, whole_.value(values[first]).name,
                            whole_.value(values[last - 1]).name);
    if (op == Op::all_reduce && local_.placement(values[first], Axis::dp)->is_flat()) {
      attrs.range = {true, Axis::dp, options_.mesh.ranges()};
    }
    local_.graph().set_layer(num_layers_);
    const std::vector<ValueId> outputs = emit(local_.graph(), op, Phase::update, name, attrs, inputs);
    for (std::size_t i = first; i < last; ++i) {
      Placed placed = local_.placed(values[i]);
      placed.on(axis) = to;
      local_.set(values[i], outputs[i - first], placed);
    }
    first = last;
  }
}

}  // namespace tessera
