#include "tessera/partition/local_graph.h"

#include <algorithm>

namespace tessera {

LocalGraph::LocalGraph(const Graph& whole, const PartitionOptions& options)
    : whole_(whole), options_(options), table_(static_cast<std::size_t>(whole.num_values())) {
  for (Here& entry : table_) {
    for (Axis axis : {Axis::pp, Axis::dp, Axis::tp}) {
      if (options.mesh.size(axis) == 1) entry.at[index(axis)] = replicated();
    }
    entry.at[index(Axis::pp)] = replicated();
  }
}

Placed LocalGraph::placed(ValueId value) const {
  Placed placed;
  for (Axis axis : {Axis::pp, Axis::dp, Axis::tp}) {
    TS_ASSERT(placement(value, axis).has_value());
    placed.on(axis) = *placement(value, axis);
  }
  return placed;
}

ValueId LocalGraph::local(ValueId value) {
  if (here(value).local == kNoValue) add_input(value);
  return here(value).local;
}

void LocalGraph::add_input(ValueId value) {
  const Value& v = whole_.value(value);
  TS_ASSERT(v.producer == kNoNode);
  const Placed placed = this->placed(value);
  ValueType type{v.type.dtype, local_shape(v.type.shape, placed)};
  const bool compact = v.role == Role::optimizer_state && placed.on(Axis::dp).is_flat();
  if (compact) type.shape = Shape{flat_range_size(type.shape.num_elems(), options_.mesh.ranges())};
  here(value).local = here(value).input = graph_.add_input(v.name, type, v.role);
  if (v.role != Role::batch && v.role != Role::scalar)
    state_.push_back({v.name, v.type, v.role, placed, false, compact});
}

void LocalGraph::set(ValueId value, ValueId local, const Placed& placed) {
  Here& entry = here(value);
  entry.local = local;
  for (Axis axis : {Axis::pp, Axis::dp, Axis::tp}) entry.at[index(axis)] = placed.on(axis);
}

CollectiveAttrs LocalGraph::collective(ValueId value, const Placed& now, Axis axis, const Placement& shard,
                                       std::string why) const {
  Placed others = now;
  others.on(axis) = replicated();
  const int num_ranks = options_.mesh.size(axis);
  return {group_of(axis), num_ranks, num_ranks, shard, local_shape(whole_.type(value).shape, others),
          std::move(why)};
}

ValueId LocalGraph::emit_collective(Op op, Phase phase, std::int32_t layer, ValueId input,
                                    const CollectiveAttrs& attrs) {
  graph_.set_layer(layer);
  const std::string name =
      fmt::format("{}.{}.{}", graph_.value(input).name, op_name(op), group_name(attrs.group));
  return emit(graph_, op, phase, name, attrs, {input})[0];
}

void LocalGraph::resolve(ValueId value, Axis axis, const Node& reader) {
  const Value& v = whole_.value(value);
  // Between the blocks lie the tensors [batch, sequence, width]; with `sequence` they are cut there.
  const bool cut =
      options_.sequence && axis == Axis::tp && v.type.shape.rank() == 3 && reader.phase != Phase::update;
  const Placement to = cut ? shard(1, even_cut(v.type.shape[1], options_.mesh.tp)) : replicated();
  const std::int32_t layer = v.producer == kNoNode ? reader.layer : whole_.node(v.producer).layer;
  const std::string why =
      fmt::format("{} is a sum over {}; {} reads it", v.name, axis_name(axis), reader.name);
  const CollectiveAttrs attrs = collective(value, placed(value), axis, to, why);
  here(value).local =
      emit_collective(cut ? Op::reduce_scatter : Op::all_reduce, reader.phase, layer, local(value), attrs);
  here(value).at[index(axis)] = to;
}

ValueId LocalGraph::sum_copies(ValueId value, ValueId local, const Placement& from, Phase phase,
                               const std::string& why) {
  TS_CHECK(
      from.dim == 0,
      "{}: ranks that share key and value heads each have a term of it, and only gradients of weights are "
      "summed so; expected a parallel.tp that divides the model's kv_heads",
      why);
  CollectiveAttrs attrs = collective(value, placed(value), Axis::tp, from, why);
  bool neighbours = true;
  std::int64_t copies = 1;
  for (const Block& block : from.blocks) {
    if (block.copies(attrs.num_ranks) == 1) continue;
    copies = block.copies(attrs.num_ranks);
    neighbours &= block.held == 1;
  }
  // A rank is in one group of neighbours; layers that share their heads otherwise go through all of tp.
  neighbours &= head_copies_ == 1 || head_copies_ == copies;
  if (neighbours) {
    attrs.group = Group::heads;
    attrs.num_ranks = head_copies_ = static_cast<int>(copies);
  }
  return emit_collective(Op::reduce_copies, phase, whole_.num_layers(), local, attrs);
}

ValueId LocalGraph::converted(ValueId value, const Placed& wanted, const Node& reader) {
  Placed now = placed(value);
  ValueId at = local(value);
  for (Axis axis : {Axis::tp, Axis::dp}) {
    const Placement& to = wanted.on(axis);
    if (now.on(axis) == to) continue;
    const auto [first, last] = converted_.equal_range(at);
    const auto known = std::find_if(first, last, [&](const auto& entry) {
      return entry.second.phase == reader.phase && entry.second.axis == axis && entry.second.to == to;
    });
    const ValueId result = known != last ? known->second.result : convert(value, at, now, axis, to, reader);
    if (known == last) converted_.insert({at, {reader.phase, axis, to, result}});
    at = result;
    now.on(axis) = to;  // the next axis finds it so
  }
  return at;
}

ValueId LocalGraph::convert(ValueId value, ValueId from_local, const Placed& now, Axis axis,
                            const Placement& to, const Node& reader) {
  const Placement& from = now.on(axis);
  const std::string& name = whole_.value(value).name;
  const std::string why = fmt::format("{} is {}; {} reads it {}", name, from.text(), reader.name, to.text());
  const Phase phase = reader.phase;
  if (from.is_replicated() && to.is_flat()) return from_local;
  if (from.is_replicated() && to.is_shard()) {
    return emit_collective(Op::shard_slice, phase, reader.layer, from_local,
                           collective(value, now, axis, to, why));
  }
  if (from.is_replicated() && to.is_partial()) {
    return emit_collective(Op::keep_first, phase, reader.layer, from_local,
                           collective(value, now, axis, to, why));
  }
  if (from.is_shard() && (to.is_replicated() || to.is_shard())) {
    if (!from.copies_agree) from_local = sum_copies(value, from_local, from, phase, why);
    const ValueId gathered = emit_collective(Op::all_gather, phase, reader.layer, from_local,
                                             collective(value, now, axis, from, why));
    return to.is_replicated() ? gathered
                              : emit_collective(Op::shard_slice, phase, reader.layer, gathered,
                                                collective(value, now, axis, to, why));
  }
  const NodeId producer = whole_.value(value).producer;
  fail("node {} reads {} on {} as {}, but {} leaves it {}, and nothing turns one into the other", reader.name,
       name, axis_name(axis), to.text(),
       producer == kNoNode ? "the input" : "node " + whole_.node(producer).name, from.text());
}

}  // namespace tessera
