// LAMB (You et al., 2020) in two ops, because its step needs norms of whole parameters, and these may lie in
// parts on many ranks:
//
//   lamb_direction   updates the moments and leaves Adam's direction plus decay in the gradient's place
//   lamb             takes the step along it, scaled by |weight| / |direction|
//
// Between the two, sum_squares gives both norms of every parameter as sums over what a rank holds, and
// stack_scalars makes one vector of them, so that they are reduced together.
#pragma once

#include "tessera/ops/update_operands.h"

namespace tessera {

struct LambDirectionAttrs {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0.0;
  FlatRange range = {};
  void describe(AttrWriter& write) const {
    write("beta1", beta1);
    write("beta2", beta2);
    write("eps", eps);
    write("weight_decay", weight_decay);
    range.describe(write);
  }
};

struct LambAttrs {
  std::int64_t index = 0;   // of the weight's squares in the vector; the direction's come next
  bool adapt = true;        // scale by the trust ratio |weight| / |direction|
  bool trust_clip = false;  // which is then at most 1
  FlatRange range = {};
  void describe(AttrWriter& write) const {
    write("index", index);
    write("adapt", adapt);
    write("trust_clip", trust_clip);
    range.describe(write);
  }
};

// Appends the node and the moments' state updates; returns the direction. The norm of the weight is that of
// the parameter itself, rounded as it may be: over many elements the roundings cancel.
ValueId lamb_direction(Graph& graph, std::string name, const MomentInputs& in,
                       const LambDirectionAttrs& attrs);
// Appends the node and the other state updates. `squares` is the vector [n].
void lamb(Graph& graph, std::string name, const MomentInputs& in, ValueId direction, ValueId squares,
          const LambAttrs& attrs);

}  // namespace tessera
