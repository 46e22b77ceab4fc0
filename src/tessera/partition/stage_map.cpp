#include "tessera/partition/stage_map.h"

#include <algorithm>

#include "tessera/ops/op_def.h"
#include "tessera/partition/layer_stages.h"

namespace tessera {
namespace {

bool is_state(Role role) {
  return role == Role::parameter || role == Role::gradient || role == Role::optimizer_state;
}

}  // namespace

bool joins_parameters(const Node& update) {
  return update.op == Op::sum_scalars || update.op == Op::stack_scalars;
}

StageMap::StageMap(const Graph& graph, const std::vector<int>& stage_of_layer)
    : graph_(graph),
      stage_of_layer_(stage_of_layer),
      live_(live_nodes(graph)),
      accumulator_(static_cast<std::size_t>(graph.num_values()), kNoValue),
      update_stages_(static_cast<std::size_t>(graph.num_nodes())) {
  const std::size_t num_boundaries =
      stage_of_layer.empty() ? 0 : static_cast<std::size_t>(stage_of_layer.back());
  activations_.resize(num_boundaries);
  gradients_.resize(num_boundaries);
  find_accumulations();
  find_crossings();
  place_update();
}

int StageMap::stage(const Node& node) const {
  return stage_of(node.layer, stage_of_layer_);
}

void StageMap::find_accumulations() {
  for (NodeId id : live_) {
    const Node& node = graph_.node(id);
    if (node.phase == Phase::update) continue;
    for (const InPlace& pair : in_place_pairs(node)) {
      const ValueId from = node.inputs[pair.input];
      const bool starts = graph_.value(from).role == Role::gradient;
      if (pair.always)
        accumulator_[static_cast<std::size_t>(node.outputs[pair.output])] =
            starts ? from : accumulator_of(from);
    }
  }
}

void StageMap::find_crossings() {
  // The farthest stage that reads each value, from its own stage on.
  std::vector<int> farthest(static_cast<std::size_t>(graph_.num_values()), -1);
  for (NodeId id : live_) {
    const Node& node = graph_.node(id);
    if (node.phase != Phase::forward && node.phase != Phase::backward) continue;
    for (ValueId v : node.inputs) {
      const NodeId producer = graph_.value(v).producer;
      if (producer == kNoNode || graph_.node(producer).phase == Phase::init || accumulator_of(v) != kNoValue)
        continue;
      const Node& from = graph_.node(producer);
      const bool down = from.phase == Phase::backward;
      const int own = stage(from), reader = stage(node);
      TS_CHECK(down ? reader <= own : reader >= own,
               "node {} on pipeline stage {} reads {}, which stage {} makes: {}s only travel {}", node.name,
               reader, graph_.value(v).name, own, down ? "gradient" : "activation", down ? "back" : "forth");
      int& far = farthest[static_cast<std::size_t>(v)];
      far = far < 0 ? reader : (down ? std::min(far, reader) : std::max(far, reader));
    }
  }
  for (ValueId v = 0; v < graph_.num_values(); ++v) {
    const int far = farthest[static_cast<std::size_t>(v)];
    if (far < 0) continue;
    const Node& from = graph_.node(graph_.value(v).producer);
    const int own = stage(from);
    for (int b = own; b < far; ++b) activations_[static_cast<std::size_t>(b)].push_back(v);
    for (int b = own - 1; b >= far; --b) gradients_[static_cast<std::size_t>(b)].push_back(v);
  }
}

void StageMap::place_update() {
  const auto of_parameter = parameter_stages(graph_, stage_of_layer_);
  for (NodeId id : live_) {
    const Node& node = graph_.node(id);
    // What joins all parameters happens everywhere, on each stage for its own.
    if (node.phase != Phase::update || joins_parameters(node)) continue;
    std::optional<std::set<int>>& stages = update_stages_[static_cast<std::size_t>(id)];
    for (ValueId v : node.inputs) {
      const Value& value = graph_.value(v);
      std::optional<std::set<int>> from;
      if (is_state(value.role)) {
        const auto& on =
            of_parameter.at(value.role == Role::parameter ? value.name : parameter_of_state(value));
        from = std::set<int>(on.begin(), on.end());
      } else if (value.producer != kNoNode && graph_.node(value.producer).phase == Phase::update) {
        from = update_stages(value.producer);
      }
      if (from && !stages) stages = from;
      TS_ASSERT(!from || from == stages);
    }
  }
}

}  // namespace tessera
