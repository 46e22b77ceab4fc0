// choose_strategy: which of an op's ways to run it fits the placements its operands have.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ops/placement_rule.h"

namespace tessera {

// An operand as the choice sees it.
struct OperandState {
  std::optional<Placement> placement;  // nothing: decided by this choice
  Role role = Role::computed;
  std::int64_t bytes = 0;
  int rank = 0;  // dims
  // Where all ranks have it: whether it may be a term of a sum on one of them, and zero on the others.
  bool may_count_once = false;
};

// The strategy that can be reached and moves the fewest bytes; the first of equals. Of the weights' first
// readers on tp, those that cut a matrix come before all others. Nothing if none can be reached.
std::optional<Strategy> choose_strategy(const std::vector<Strategy>& strategies,
                                        const std::vector<OperandState>& operands, Axis axis, int num_ranks);

}  // namespace tessera
