#include "tessera/partition/partition.h"

#include <algorithm>
#include <set>

#include "tessera/ops/op_def.h"
#include "tessera/partition/choose_strategy.h"
#include "tessera/partition/gradient_buckets.h"
#include "tessera/partition/layer_stages.h"
#include "tessera/partition/local_graph.h"

namespace tessera {
namespace {

std::vector<ValueType> types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<ValueType> types;
  for (ValueId v : values) types.push_back(graph.type(v));
  return types;
}

class Partitioner {
 public:
  Partitioner(const Graph& whole, const PartitionOptions& options)
      : whole_(whole),
        options_(options),
        local_(whole, options),
        buckets_(whole, options, local_),
        wanted_(static_cast<std::size_t>(whole.num_values())) {}

  Partitioned run() {
    place_inputs();
    find_wanted_blocks();
    for (const Node& node : whole_.nodes()) {
      if (node.phase == Phase::update) buckets_.reduce_gradients();
      place(node);
    }
    return finish();
  }

 private:
  int size(Axis axis) const { return options_.mesh.size(axis); }

  // What is known before any node: batches are cut over dp, weights lie whole on it and over tp as the
  // training graph has them, scalars are everywhere.
  void place_inputs() {
    for (ValueId v = 0; v < whole_.num_values(); ++v) {
      const Value& value = whole_.value(v);
      if (value.producer != kNoNode || value.role == Role::gradient || value.role == Role::optimizer_state)
        continue;
      const bool rows = value.role == Role::batch && value.type.shape.rank() >= 2;
      if (size(Axis::dp) > 1) {
        local_.decide(v, Axis::dp,
                      rows ? shard(0, even_cut(value.type.shape[0], size(Axis::dp))) : replicated());
      }
      if (size(Axis::tp) == 1) continue;
      if (value.role != Role::parameter) local_.decide(v, Axis::tp, replicated());
      if (value.role != Role::parameter || options_.weights == nullptr) continue;
      const auto known = std::find_if(options_.weights->begin(), options_.weights->end(),
                                      [&](const PlacedTensor& t) { return t.name == value.name; });
      TS_ASSERT(known != options_.weights->end());
      local_.decide(v, Axis::tp, known->placed.on(Axis::tp));
    }
  }

  // From the last reader back: attention wants q, k and v cut each on its own, and so must the projection
  // that makes them.
  void find_wanted_blocks() {
    if (size(Axis::tp) == 1) return;
    for (NodeId id = whole_.num_nodes() - 1; id >= 0; --id) {
      const Node& node = whole_.node(id);
      if (node.phase != Phase::forward || node.inputs.empty()) continue;
      const std::vector<ValueType> inputs = types_of(whole_, node.inputs),
                                   outputs = types_of(whole_, node.outputs);
      const PlacementCall call{node, inputs, outputs, Axis::tp, size(Axis::tp), {}, wanted(node.outputs[0])};
      std::vector<Block> blocks = wanted_blocks(op_def(node.op).placement, call);
      if (!blocks.empty() && wanted(node.inputs[0]).empty()) wanted(node.inputs[0]) = std::move(blocks);
    }
  }

  std::vector<Block>& wanted(ValueId v) { return wanted_[static_cast<std::size_t>(v)]; }

  // The weight's accumulator and state follow it on tp; optimizer state is a range on dp under ZeRO-1.
  void place_state(const Node& node) {
    for (ValueId v : node.inputs) {
      const Value& value = whole_.value(v);
      if (value.role != Role::gradient && value.role != Role::optimizer_state) continue;
      const ValueId parameter = whole_.find_input(parameter_of_state(value));
      TS_CHECK(parameter != kNoValue, "state {} belongs to no parameter: it must be named <what>.<parameter>",
               value.name);
      if (!local_.placement(v, Axis::tp) && local_.placement(parameter, Axis::tp)) {
        Placement placement = *local_.placement(parameter, Axis::tp);
        if (value.role == Role::gradient && has_copies(placement, size(Axis::tp)))
          placement.copies_agree = false;
        if (value.role == Role::optimizer_state || placement.is_shard())
          local_.decide(v, Axis::tp, placement);
      }
      if (value.role == Role::optimizer_state && size(Axis::dp) > 1) {
        local_.decide(v, Axis::dp, options_.zero1 ? flat_shard() : replicated());
      }
    }
  }

  Strategy choose(const Node& node, Axis axis, const std::vector<ValueType>& inputs,
                  const std::vector<ValueType>& outputs) {
    const PlacementRule& rule = op_def(node.op).placement;
    // First with partial operands as they are, then with them summed; but for accumulators, which stay terms
    // of a sum until the update. What is whole then joins such a sum on one rank; scalars always may, while
    // of other tensors nothing would be saved.
    for (const bool summed : {false, true}) {
      std::vector<const Placement*> current;
      std::vector<OperandState> operands;
      bool joins_sum = false;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId v = node.inputs[i];
        const std::optional<Placement>& at = local_.placement(v, axis);
        const Role role = whole_.value(v).role;
        if (summed && at && at->is_partial() && role == Role::computed && !is_accumulator(v))
          local_.resolve(v, axis, node);
        current.push_back(at ? &*at : nullptr);
        operands.push_back(
            {at, is_accumulator(v) ? Role::gradient : role, inputs[i].num_bytes(), inputs[i].shape.rank()});
        joins_sum |= summed && is_accumulator(v) && at && at->is_partial();
      }
      for (OperandState& operand : operands) operand.may_count_once = joins_sum || operand.rank == 0;
      const PlacementCall call{node,
                               inputs,
                               outputs,
                               axis,
                               size(axis),
                               current,
                               node.outputs.empty() ? std::vector<Block>{} : wanted(node.outputs[0])};
      const auto best = choose_strategy(placement_strategies(rule, call), operands, axis, size(axis));
      if (best) return *best;
    }
    std::string found;
    for (ValueId v : node.inputs) {
      const auto& at = local_.placement(v, axis);
      found += fmt::format("{}{} is {}", found.empty() ? "" : ", ", whole_.value(v).name,
                           at ? at->text() : "undecided");
    }
    fail("[{}] {}: cannot run on {} = {} with its operands as they are: {}", op_name(node.op), node.name,
         axis_name(axis), size(axis), found);
  }

  // Links of an accumulation lie where the accumulator lies, from micro-batch to micro-batch.
  bool is_accumulator(ValueId v) const {
    const Value& value = whole_.value(v);
    return value.role == Role::gradient || accumulators_.contains(v);
  }

  void place(const Node& node) {
    place_state(node);
    const std::vector<ValueType> inputs = types_of(whole_, node.inputs),
                                 outputs = types_of(whole_, node.outputs);
    Attrs attrs = node.attrs;
    std::vector<Placed> reads(node.inputs.size()), writes(node.outputs.size());
    for (Axis axis : kCutAxes) {
      if (size(axis) == 1) continue;
      const Strategy strategy = choose(node, axis, inputs, outputs);
      for (std::size_t i = 0; i < reads.size(); ++i) {
        reads[i].on(axis) = strategy.inputs[i];
        if (local_.placement(node.inputs[i], axis)) continue;
        // A weight that counts on one rank only still lies on all.
        const bool once =
            strategy.inputs[i].is_partial() && whole_.value(node.inputs[i]).role == Role::parameter;
        local_.decide(node.inputs[i], axis, once ? replicated() : strategy.inputs[i]);
      }
      for (std::size_t i = 0; i < writes.size(); ++i) writes[i].on(axis) = strategy.outputs[i];
      const PlacementRule& rule = op_def(node.op).placement;
      PlacementCall call{node, inputs, outputs, axis, size(axis)};
      if (axis == Axis::dp) call.flat_ranks = options_.mesh.ranges();
      if (rule.local_attrs) attrs = rule.local_attrs(call, attrs, strategy);
    }
    add_local(node, attrs, reads, writes);
  }

  void add_local(const Node& node, const Attrs& attrs, const std::vector<Placed>& reads,
                 std::vector<Placed>& writes) {
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (local_.placement(v, Axis::pp)->is_partial()) local_.resolve(v, Axis::pp, node);
      inputs.push_back(local_.converted(v, reads[i], node));
    }
    // A sum over all parameters: every stage has its own.
    if (node.op == Op::sum_scalars && size(Axis::pp) > 1) writes[0].on(Axis::pp) = partial_sum();
    local_.graph().set_layer(node.layer);
    const std::vector<ValueId> outputs = emit(local_.graph(), node.op, node.phase, node.name, attrs, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      const Shape expected = local_shape(whole_.type(v).shape, writes[i]);
      const bool range = writes[i].on(Axis::dp).is_flat();
      TS_CHECK(range || local_.graph().type(outputs[i]).shape == expected,
               "[{}] {}: its placement rule gives {}, its shape rule {}", op_name(node.op), node.name,
               expected.text(), local_.graph().type(outputs[i]).shape.text());
      local_.set(v, outputs[i], writes[i]);
    }
    for (const InPlace& pair : in_place_pairs(node)) {
      if (pair.always && is_accumulator(node.inputs[pair.input]))
        accumulators_.insert(node.outputs[pair.output]);
    }
  }

  // The host reads an output on any tp rank; of a batch every dp rank has its own rows.
  void mark_output(const Output& output) {
    Node reader{.name = "output " + output.name};
    if (const NodeId producer = whole_.value(output.value).producer; producer != kNoNode) {
      reader.phase = whole_.node(producer).phase;
      reader.layer = whole_.node(producer).layer;
    }
    if (local_.placement(output.value, Axis::tp)->is_partial()) {
      local_.resolve(output.value, Axis::tp, reader);
    }
    Placed wanted = local_.placed(output.value);
    wanted.on(Axis::tp) = replicated();
    local_.graph().mark_output(output.name, local_.converted(output.value, wanted, reader));
  }

  Partitioned finish() {
    Partitioned result;
    buckets_.gather_weights();
    for (const Output& output : whole_.outputs()) mark_output(output);
    for (const StateUpdate& update : whole_.state_updates()) {
      local_.graph().add_state_update(local_.local_input(update.before), local_.local(update.after));
    }
    result.head_copies = local_.head_copies();
    result.state = local_.take_state();
    const auto stages = parameter_stages(whole_, options_.stage_of_layer);
    for (PlacedTensor& tensor : result.state) {
      const ValueId v = whole_.find_input(tensor.name);
      const auto on =
          stages.find(tensor.role == Role::parameter ? tensor.name : parameter_of_state(whole_.value(v)));
      tensor.tied = on != stages.end() && on->second.size() > 1;
    }
    result.graph = local_.take();
    return result;
  }

  const Graph& whole_;
  const PartitionOptions& options_;
  LocalGraph local_;
  GradientBuckets buckets_;
  std::vector<std::vector<Block>> wanted_;  // by value: how its readers want the last dim cut
  std::set<ValueId> accumulators_;
};

}  // namespace

Partitioned partition(const Graph& whole, const PartitionOptions& options) {
  const Mesh& mesh = options.mesh;
  TS_CHECK(mesh.dp % mesh.ranges() == 0,
           "zero1_group = {} does not divide the mesh's dp = {}: every rank belongs to one group that has a "
           "whole copy of the optimizer's state",
           mesh.zero1_group, mesh.dp);
  return Partitioner(whole, options).run();
}

}  // namespace tessera
