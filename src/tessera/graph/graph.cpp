#include "tessera/graph/graph.h"

#include <algorithm>

namespace tessera {

std::string ValueType::text() const {
  return std::string(dtype_name(dtype)) + shape.text();
}

std::string_view role_name(Role role) {
  switch (role) {
    case Role::computed:
      return "computed";
    case Role::batch:
      return "batch";
    case Role::received_activation:
      return "received_activation";
    case Role::received_gradient:
      return "received_gradient";
    case Role::scalar:
      return "scalar";
    case Role::parameter:
      return "parameter";
    case Role::gradient:
      return "gradient";
    case Role::optimizer_state:
      return "optimizer_state";
    case Role::cache:
      return "cache";
  }
  return "?";
}

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::init:
      return "init";
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "?";
}

ValueId Graph::add_input(std::string name, ValueType type, Role role, std::int32_t chunk) {
  TS_CHECK(find_input(name) == kNoValue, "graph input '{}' is defined twice", name);
  for (int d = 0; d < type.shape.rank(); ++d) {
    TS_CHECK(type.shape[d] > 0, "graph input '{}' has shape {}: every dim must be at least 1", name,
             type.shape.text());
  }
  input_index_.emplace(name, num_values());
  values_.push_back({std::move(name), type, role, kNoNode, chunk});
  return num_values() - 1;
}

std::vector<ValueId> Graph::add_node(Op op, Phase phase, std::string name, Attrs attrs,
                                     std::vector<ValueId> inputs, std::span<const ValueType> outputs) {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::string value_name = i == 0 ? name : name + ":" + std::to_string(i);
    values_.push_back({std::move(value_name), outputs[i], Role::computed, num_nodes()});
    ids.push_back(num_values() - 1);
  }
  nodes_.push_back({op, phase, std::move(name), std::move(attrs), std::move(inputs), ids, layer_});
  return ids;
}

ValueId Graph::find_input(std::string_view name) const {
  const auto it = input_index_.find(std::string(name));
  return it == input_index_.end() ? kNoValue : it->second;
}

std::int32_t Graph::num_layers() const {
  std::int32_t last = 0;
  for (const Node& node : nodes_) last = std::max(last, node.layer);
  return std::max(last, 1);
}

ValueId Graph::find_output(std::string_view name) const {
  const auto it =
      std::find_if(outputs_.begin(), outputs_.end(), [&](const Output& o) { return o.name == name; });
  return it == outputs_.end() ? kNoValue : it->value;
}

std::vector<NodeId> live_nodes(const Graph& graph) {
  std::vector<bool> needed(static_cast<std::size_t>(graph.num_values()), false);
  for (const StateUpdate& update : graph.state_updates())
    needed[static_cast<std::size_t>(update.after)] = true;
  for (const Output& output : graph.outputs()) needed[static_cast<std::size_t>(output.value)] = true;
  for (ValueId message : graph.messages()) needed[static_cast<std::size_t>(message)] = true;
  std::vector<NodeId> live;
  for (NodeId id = graph.num_nodes() - 1; id >= 0; --id) {
    const Node& node = graph.node(id);
    const bool any_needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                        [&](ValueId v) { return needed[static_cast<std::size_t>(v)]; });
    if (!any_needed) continue;
    live.push_back(id);
    for (ValueId input : node.inputs) needed[static_cast<std::size_t>(input)] = true;
  }
  std::reverse(live.begin(), live.end());
  return live;
}

}  // namespace tessera
