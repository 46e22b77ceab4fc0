#include "tessera/plan/fuse_steps.h"

#include <algorithm>

#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

// Pairs stand close together in the order in which autodiff and the partitioner write nodes.
constexpr std::size_t kReach = 8;

bool contains(std::span<const ValueId> values, ValueId value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Whether the node at `from` may run right after the one at `to`: nothing between them makes what it reads,
// or reads what it overwrites.
bool can_move_up(const Graph& graph, const std::vector<Step>& steps, std::size_t from, std::size_t to) {
  const Node& moved = graph.node(steps[from].node);
  for (std::size_t s = to + 1; s < from; ++s) {
    const Node& between = graph.node(steps[s].node);
    for (ValueId v : between.outputs) {
      if (contains(moved.inputs, v)) return false;
    }
    for (const InPlace& pair : in_place_pairs(moved)) {
      if (pair.always && contains(between.inputs, moved.inputs[pair.input])) return false;
    }
  }
  return true;
}

}  // namespace

void fuse_steps(const Graph& graph, std::vector<Step>& steps, const FusesFunction& fuses) {
  for (std::size_t first = 0; first + 1 < steps.size(); ++first) {
    const std::size_t end = std::min(steps.size(), first + 1 + kReach);
    for (std::size_t second = first + 1; second < end; ++second) {
      if (steps[second].fused) continue;
      if (!fuses(graph, graph.node(steps[first].node), graph.node(steps[second].node))) continue;
      if (!can_move_up(graph, steps, second, first)) continue;
      const auto at = steps.begin() + static_cast<std::ptrdiff_t>(first) + 1;
      std::rotate(at, steps.begin() + static_cast<std::ptrdiff_t>(second),
                  steps.begin() + static_cast<std::ptrdiff_t>(second) + 1);
      at->fused = true;
      ++first;  // a node is in one pair
      break;
    }
  }
}

}  // namespace tessera
