// UpdateOperands: what the ops that update a parameter have in common. Input 0 is the parameter, input 1 the
// gradient's accumulator; then come its state and the step's scalars, and last, for a bf16 parameter with
// fp32 state, the low halves of the fp32 weights of which the parameter is the rounding
// (base/float_halves.h). Under ZeRO-1 parameter and gradient lie whole, of which a range is this rank's, and
// of the state there is only that range. Used by adamw, lamb and sgd.
#pragma once

#include <vector>

#include "tessera/ops/cut_range.h"
#include "tessera/ops/op_def.h"

namespace tessera {

// Positions among the inputs.
struct UpdateOperands {
  std::vector<std::size_t> states;
  std::vector<std::size_t> scalars;  // of the accumulator's type
  std::size_t step = 0;              // i32; 0: there is none
  std::size_t low = 0;               // if there is one
};

// What the ops with two moments read, adamw and lamb.
struct MomentInputs {
  ValueId param = kNoValue, grad = kNoValue, moment1 = kNoValue, moment2 = kNoValue;
  ValueId low = kNoValue;  // low halves, when the parameter is bf16 and its state fp32
  ValueId learning_rate = kNoValue, step = kNoValue, clip_factor = kNoValue;
};

// Refuses operands that do not go together, naming them; the caller has counted them.
void check_update_operands(const InferCall& call, const FlatRange& range, const UpdateOperands& at);

// This rank's range of a flat shard.
FlatRange flat_range(const PlacementCall& call);

// The rule's local_attrs for attributes with a `range`.
template <class A>
Attrs local_range(const PlacementCall& call, const Attrs& attrs, const Strategy& strategy) {
  if (strategy.letter != 'F') return attrs;
  auto local = attrs.as<A>();
  local.range = flat_range(call);
  return local;
}

}  // namespace tessera
