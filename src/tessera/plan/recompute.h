// Recompute: what backward needs of forward is kept, or computed again next to its gradient.
//
//   none        everything is kept
//   selective   attention's core, activation functions and norms are computed again
//   full        of every layer only what enters it is kept, and its forward runs again before its backward:
//               a third more work for the least memory
//   a list      of op names: rms_norm,swiglu. Norms and activation functions alone cost about one per cent of
//               the step and save close to half of the kept bytes, as their inputs are kept anyway
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "tessera/graph/graph.h"

namespace tessera {

struct Recompute {
  bool full = false;
  std::set<Op> ops;
  bool none() const { return !full && ops.empty(); }
};

// From "none", "selective", "full" or a list of op names; the error names `key` and what there is.
Recompute parse_recompute(std::string_view text, std::string_view key);

// The same graph with clones of the recomputed nodes in the backward program. Values have new ids:
// find inputs and outputs by name.
Graph apply_recompute(const Graph& graph, const Recompute& mode);

}  // namespace tessera
