#include "tessera/partition/choose_strategy.h"

#include <limits>

#include "tessera/ops/collectives.h"

namespace tessera {
namespace {

constexpr std::int64_t kImpossible = std::numeric_limits<std::int64_t>::max() / 64;

// Bytes that each rank sends to turn what is there into what is wanted.
std::int64_t conversion_bytes(const OperandState& operand, const Placement& wanted, int num_ranks) {
  if (!operand.placement) {
    // A sharded accumulator follows its weight, whose placement is decided before it is used.
    return operand.role == Role::gradient && wanted.is_shard() ? kImpossible : 0;
  }
  const Placement& found = *operand.placement;
  if (found == wanted) return 0;
  // The range is there already, unless it is to be stored alone.
  if (found.is_replicated() && wanted.is_flat())
    return operand.role == Role::optimizer_state ? kImpossible : 0;
  if (operand.role == Role::parameter) return found.is_replicated() && wanted.is_partial() ? 0 : kImpossible;
  if (operand.role != Role::computed && operand.role != Role::batch && operand.role != Role::scalar)
    return kImpossible;
  if (wanted.is_partial()) return found.is_replicated() && operand.may_count_once ? 0 : kImpossible;
  if (found.is_partial() || wanted.is_flat()) return kImpossible;
  return found.is_replicated() ? 0 : gather_bytes(operand.bytes, num_ranks);
}

bool cuts_undecided_matrix(const Strategy& strategy, const std::vector<OperandState>& operands) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const OperandState& operand = operands[i];
    const bool matrix = operand.role == Role::parameter && operand.rank >= 2 && !operand.placement;
    if (matrix && strategy.inputs[i].is_shard()) return true;
  }
  return false;
}

}  // namespace

std::optional<Strategy> choose_strategy(const std::vector<Strategy>& strategies,
                                        const std::vector<OperandState>& operands, Axis axis, int num_ranks) {
  std::optional<Strategy> best;
  std::int64_t least = kImpossible;
  bool best_cuts = false;
  for (const Strategy& strategy : strategies) {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < operands.size() && bytes < kImpossible; ++i) {
      bytes += conversion_bytes(operands[i], strategy.inputs[i], num_ranks);
    }
    const bool cuts = axis == Axis::tp && cuts_undecided_matrix(strategy, operands);
    if (bytes >= kImpossible || (best && (best_cuts > cuts || (best_cuts == cuts && bytes >= least))))
      continue;
    best = strategy;
    least = bytes;
    best_cuts = cuts;
  }
  return best;
}

}  // namespace tessera
