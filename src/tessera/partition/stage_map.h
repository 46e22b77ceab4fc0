// StageMap: which pipeline stage every node of a partitioned graph belongs to, and which values cross
// between stages. The same for all ranks; used by cut_stages().
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

// Whether a node of the update reads something of every parameter. On a stage, those of other stages are
// zeros.
bool joins_parameters(const Node& update);

class StageMap {
 public:
  // The error names a value that would have to travel against the order of the stages.
  StageMap(const Graph& graph, const std::vector<int>& stage_of_layer);

  const std::vector<NodeId>& live() const { return live_; }
  // Of a forward or backward node.
  int stage(const Node& node) const;
  // Of an update node: those that hold its parameters; nothing: all of them.
  const std::optional<std::set<int>>& update_stages(NodeId node) const {
    return update_stages_[static_cast<std::size_t>(node)];
  }
  // The accumulator that a link of an accumulation adds to; kNoValue for other values.
  ValueId accumulator_of(ValueId value) const { return accumulator_[static_cast<std::size_t>(value)]; }
  // Values that stage b + 1 gets from stage b in forward, and b from b + 1 in backward.
  const std::vector<ValueId>& activations_over(int b) const {
    return activations_[static_cast<std::size_t>(b)];
  }
  const std::vector<ValueId>& gradients_over(int b) const { return gradients_[static_cast<std::size_t>(b)]; }

 private:
  void find_accumulations();
  void find_crossings();
  void place_update();

  const Graph& graph_;
  const std::vector<int>& stage_of_layer_;
  std::vector<NodeId> live_;
  std::vector<ValueId> accumulator_;
  std::vector<std::optional<std::set<int>>> update_stages_;
  std::vector<std::vector<ValueId>> activations_, gradients_;  // by boundary
};

}  // namespace tessera
