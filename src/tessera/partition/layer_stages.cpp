#include "tessera/partition/layer_stages.h"

#include <set>

namespace tessera {

int stage_of(std::int32_t layer, const std::vector<int>& stage_of_layer) {
  if (stage_of_layer.empty() || layer < 0) return 0;
  return layer < static_cast<std::int32_t>(stage_of_layer.size())
             ? stage_of_layer[static_cast<std::size_t>(layer)]
             : stage_of_layer.back();
}

std::map<std::string, std::vector<int>> parameter_stages(const Graph& graph,
                                                         const std::vector<int>& stage_of_layer) {
  std::map<std::string, std::set<int>> readers;
  for (NodeId id : live_nodes(graph)) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward && node.phase != Phase::backward) continue;
    for (ValueId v : node.inputs) {
      if (graph.value(v).role != Role::parameter) continue;
      readers[graph.value(v).name].insert(stage_of(node.layer, stage_of_layer));
    }
  }
  std::map<std::string, std::vector<int>> stages;
  for (const auto& [name, set] : readers) stages[name] = {set.begin(), set.end()};
  return stages;
}

std::string parameter_of_state(const Value& state) {
  return state.name.substr(state.name.find('.') + 1);
}

}  // namespace tessera
