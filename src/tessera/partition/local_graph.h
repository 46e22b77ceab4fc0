// LocalGraph: a rank's graph in the making: which local value stands for each value of the whole graph,
// how it lies, and the collectives that turn it into something else. Used by partition().
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>

#include "tessera/ops/collectives.h"
#include "tessera/partition/partition.h"

namespace tessera {

class LocalGraph {
 public:
  LocalGraph(const Graph& whole, const PartitionOptions& options);

  // Nothing: an input that no node has read yet.
  const std::optional<Placement>& placement(ValueId value, Axis axis) const {
    return here(value).at[index(axis)];
  }
  void decide(ValueId value, Axis axis, const Placement& placement) {
    here(value).at[index(axis)] = placement;
  }
  // The value's stand-in; an input is created once all its placements are decided.
  ValueId local(ValueId value);
  // The stand-in of an input as the programs find it, whatever the update has made of it since.
  ValueId local_input(ValueId value) const { return here(value).input; }
  Placed placed(ValueId value) const;

  // Records what a node, or a collective in the update, made of a value.
  void set(ValueId value, ValueId local, const Placed& placed);
  // Sums a partial value for all who read it from here on.
  void resolve(ValueId value, Axis axis, const Node& reader);
  // The value as `reader` wants it. What one program converts another does not keep: it converts again.
  ValueId converted(ValueId value, const Placed& wanted, const Node& reader);

  Graph& graph() { return graph_; }
  Graph take() { return std::move(graph_); }
  int head_copies() const { return head_copies_; }
  std::vector<PlacedTensor> take_state() { return std::move(state_); }

  // Attributes of a collective over `axis` on a value that lies as `now` on the other axes.
  CollectiveAttrs collective(ValueId value, const Placed& now, Axis axis, const Placement& shard,
                             std::string why) const;
  // Sums the copies of shared heads, in the group that shares them.
  ValueId sum_copies(ValueId value, ValueId local, const Placement& from, Phase phase,
                     const std::string& why);

 private:
  struct Here {
    std::array<std::optional<Placement>, kNumAxes> at;
    ValueId local = kNoValue, input = kNoValue;
  };

  struct Conversion {
    Phase phase = Phase::forward;
    Axis axis = Axis::tp;
    Placement to;
    ValueId result = kNoValue;
  };

  static std::size_t index(Axis axis) { return static_cast<std::size_t>(axis); }
  Here& here(ValueId v) { return table_[static_cast<std::size_t>(v)]; }
  const Here& here(ValueId v) const { return table_[static_cast<std::size_t>(v)]; }
  void add_input(ValueId value);
  // From where the value is `now` on one axis.
  ValueId convert(ValueId value, ValueId from_local, const Placed& now, Axis axis, const Placement& to,
                  const Node& reader);
  ValueId emit_collective(Op op, Phase phase, std::int32_t layer, ValueId input,
                          const CollectiveAttrs& attrs);

  const Graph& whole_;
  const PartitionOptions& options_;
  Graph graph_;
  std::vector<Here> table_;
  std::vector<PlacedTensor> state_;
  std::multimap<ValueId, Conversion> converted_;  // by the local value that was converted
  int head_copies_ = 1;
};

}  // namespace tessera
