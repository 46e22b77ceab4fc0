#include "tessera/partition/stages.h"

#include <map>

#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_def.h"
#include "tessera/partition/stage_map.h"

namespace tessera {
namespace {

class StageCutter {
 public:
  StageCutter(const Graph& whole, const std::vector<int>& stage_of_layer, int num_ranks, int num_chunks,
              int rank)
      : whole_(whole), stages_(whole, stage_of_layer), num_ranks_(num_ranks), rank_(rank) {
    result_.messages.resize(static_cast<std::size_t>(num_chunks));
    num_stages_ = num_ranks * num_chunks;
  }

  RankStages run() {
    for (int chunk = 0; chunk < static_cast<int>(result_.messages.size()); ++chunk) add_receives(chunk);
    for (NodeId id : stages_.live()) {
      const Node& node = whole_.node(id);
      if (node.phase == Phase::update) {
        if (is_mine(stages_.update_stages(id))) copy_update(node);
      } else if (node.phase != Phase::init && stages_.stage(node) % num_ranks_ == rank_) {
        copy(node, stages_.stage(node) / num_ranks_);
      }
    }
    add_state_updates();
    for (int chunk = 0; chunk < static_cast<int>(result_.messages.size()); ++chunk) add_sends(chunk);
    for (const Output& output : whole_.outputs()) {
      const auto found = locals_.find({output.value, chunk_of(output.value)});
      if (found != locals_.end()) graph().mark_output(output.name, found->second);
    }
    return std::move(result_);
  }

 private:
  using Key = std::pair<ValueId, int>;  // value and chunk; chunk 0 for what the chunks share

  Graph& graph() { return result_.graph; }
  int stage_of_chunk(int chunk) const { return chunk * num_ranks_ + rank_; }

  bool is_mine(const std::optional<std::set<int>>& stages) const {
    if (!stages) return true;
    for (int stage : *stages) {
      if (stage % num_ranks_ == rank_) return true;
    }
    return false;
  }

  // The chunk that makes a value, if it is one of this rank's.
  int chunk_of(ValueId v) const {
    const NodeId producer = whole_.value(v).producer;
    if (producer == kNoNode) return 0;
    const Node& node = whole_.node(producer);
    return node.phase == Phase::forward || node.phase == Phase::backward ? stages_.stage(node) / num_ranks_
                                                                         : 0;
  }

  void receive(ValueId v, int chunk, Role role, std::vector<ValueId>& list) {
    const Value& value = whole_.value(v);
    std::string name = value.name + ".received";
    // What both forward and backward have gathered is called the same.
    if (graph().find_input(chunk_input_name(name, chunk)) != kNoValue) name += "_back";
    const ValueId local = graph().add_input(chunk_input_name(name, chunk), value.type, role, chunk);
    locals_[{v, chunk}] = local;
    list.push_back(local);
  }

  void add_receives(int chunk) {
    const int stage = stage_of_chunk(chunk);
    StageMessages& messages = result_.messages[static_cast<std::size_t>(chunk)];
    if (stage > 0) {
      for (ValueId v : stages_.activations_over(stage - 1))
        receive(v, chunk, Role::received_activation, messages.receive_activation);
    }
    if (stage < num_stages_ - 1) {
      for (ValueId v : stages_.gradients_over(stage))
        receive(v, chunk, Role::received_gradient, messages.receive_gradient);
    }
  }

  void add_sends(int chunk) {
    const int stage = stage_of_chunk(chunk);
    StageMessages& messages = result_.messages[static_cast<std::size_t>(chunk)];
    const auto send = [&](ValueId v, std::vector<ValueId>& list) {
      const ValueId local = locals_.at({v, chunk});
      graph().mark_message(local);
      list.push_back(local);
    };
    if (stage < num_stages_ - 1) {
      for (ValueId v : stages_.activations_over(stage)) send(v, messages.send_activation);
    }
    if (stage > 0) {
      for (ValueId v : stages_.gradients_over(stage - 1)) send(v, messages.send_gradient);
    }
  }

  ValueId input(ValueId v, int chunk) {
    const Value& value = whole_.value(v);
    const int owner = value.role == Role::batch ? chunk : 0;
    const auto [at, is_new] = locals_.try_emplace({v, owner}, kNoValue);
    if (is_new)
      at->second = graph().add_input(chunk_input_name(value.name, owner), value.type, value.role, owner);
    return at->second;
  }

  ValueId read(ValueId v, const Node& reader, int chunk) {
    const NodeId producer = whole_.value(v).producer;
    if (producer == kNoNode) return input(v, chunk);
    const Node& from = whole_.node(producer);
    if (from.phase == Phase::init) {
      if (!locals_.contains({v, 0})) copy(from, 0);
      return locals_.at({v, 0});
    }
    if (from.phase == Phase::update) return locals_.at({v, 0});
    // What another stage has added is in that stage's accumulator, not in this one's.
    const ValueId accumulator = stages_.accumulator_of(v);
    if (accumulator != kNoValue && stages_.stage(from) != stages_.stage(reader))
      return input(accumulator, chunk);
    return locals_.at({v, chunk});
  }

  void copy(const Node& node, int chunk) {
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(read(v, node, chunk));
    add(node, std::move(inputs), chunk);
  }

  void copy_update(const Node& node) {
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) {
      inputs.push_back(joins_parameters(node) && is_foreign(v, node) ? zero(whole_.type(v))
                                                                     : read(v, node, 0));
    }
    add(node, std::move(inputs), 0);
  }

  // Whether an operand comes from parameters of other stages. In a sum, one on two stages counts on the
  // first.
  bool is_foreign(ValueId v, const Node& reader) const {
    const auto& on = stages_.update_stages(whole_.value(v).producer);
    return reader.op == Op::sum_scalars ? on && *on->begin() % num_ranks_ != rank_ : !is_mine(on);
  }

  ValueId zero(const ValueType& type) {
    ValueId& value = zeros_.try_emplace(type.text(), kNoValue).first->second;
    if (value == kNoValue)
      value = graph().add_node(Op::zeros, Phase::update, "zero", ZerosAttrs{type}, {}, {&type, 1})[0];
    return value;
  }

  void add(const Node& node, std::vector<ValueId> inputs, int chunk) {
    std::vector<ValueType> types;
    for (ValueId v : node.outputs) types.push_back(whole_.type(v));
    graph().set_layer(node.layer);
    const std::vector<ValueId> outputs =
        graph().add_node(node.op, node.phase, node.name, node.attrs, std::move(inputs), types);
    graph().node(graph().num_nodes() - 1).chunk = chunk;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      locals_[{node.outputs[i], chunk}] = outputs[i];
      const ValueId accumulator = stages_.accumulator_of(node.outputs[i]);
      if (accumulator != kNoValue) last_links_[{accumulator, chunk}] = outputs[i];
    }
  }

  void add_state_updates() {
    for (const auto& [key, link] : last_links_) graph().add_state_update(locals_.at({key.first, 0}), link);
    for (const StateUpdate& update : whole_.state_updates()) {
      if (stages_.accumulator_of(update.after) != kNoValue) continue;
      const auto after = locals_.find({update.after, 0});
      if (after != locals_.end()) graph().add_state_update(locals_.at({update.before, 0}), after->second);
    }
  }

  const Graph& whole_;
  const StageMap stages_;
  const int num_ranks_, rank_;
  int num_stages_ = 1;
  RankStages result_;
  std::map<Key, ValueId> locals_;
  std::map<std::string, ValueId> zeros_;  // by type
  std::map<Key, ValueId> last_links_;     // of each accumulator in each chunk
};

}  // namespace

std::string chunk_input_name(std::string_view name, int chunk) {
  return chunk == 0 ? std::string(name) : fmt::format("{}@{}", name, chunk);
}

RankStages cut_stages(const Graph& graph, const std::vector<int>& stage_of_layer, int num_ranks,
                      int num_chunks, int rank) {
  return StageCutter(graph, stage_of_layer, num_ranks, num_chunks, rank).run();
}

}  // namespace tessera
