// fold_constant_masks: attention that a model has written out with a constant triangular mask becomes the
// attention op, which skips what the mask hides and never stores the T x T scores.
//
// Recognised, for every head h of one packed qkv (ops/heads.h), and the heads concatenated:
//
//   softmax(scale * q_h k_h^T + mask) v_h     mask: causal_mask, also scaled by a positive factor
//
// where the scale may stand on the scores, on q or on k. Run before differentiate(): its gradients then are
// the fused ones too.
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

struct FoldedMasks {
  Graph graph;                     // of forward and constants; outputs and state updates are carried over
  std::vector<ValueId> new_ids;    // by old id; kNoValue for what is gone
  std::vector<std::string> names;  // of the attentions, which are called as the node that joined the heads

  ValueId at(ValueId old) const { return new_ids[static_cast<std::size_t>(old)]; }
};

FoldedMasks fold_constant_masks(const Graph& graph);

}  // namespace tessera
