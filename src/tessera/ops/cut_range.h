// CutRange: that a dim of a node's operands is one rank's part of a whole dim. Kernels that must know
// where their part begins (vocabulary, positions, dropout's counters) get the rank's coordinate from the
// executor, so that all ranks of an axis share one plan.
#pragma once

#include "tessera/graph/attrs.h"
#include "tessera/graph/mesh.h"

namespace tessera {

struct CutRange {
  bool cut = false;
  Axis axis = Axis::tp;
  std::int64_t whole = 0;  // size of the dim before the cut
  int num_ranks = 1;

  void describe(AttrWriter& write, std::string_view name) const {
    if (cut) write(name, fmt::format("{}/{}", whole, axis_name(axis)));
  }
};

// That a node works on one rank's range of the elements of its operands, which lie there whole: ZeRO-1.
// The ranks of the axis stand in groups of neighbours; each group has all ranges.
struct FlatRange {
  bool cut = false;
  Axis axis = Axis::dp;
  int num_ranks = 1;   // of a group, and so ranges
  int num_groups = 1;  // ranks that have the same range

  void describe(AttrWriter& write) const {
    if (cut) write("range", fmt::format("1/{} over {}", num_ranks, axis_name(axis)));
    if (cut && num_groups > 1) write("groups", num_groups);
  }
};

}  // namespace tessera
