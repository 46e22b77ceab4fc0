// find_early_collectives: which gradient reductions of the update program can run under the last
// micro-batch's backward pass: each as soon as the last addition to its last accumulator is done. Called by
// compile(); the executor runs them there when it is told that the update follows, and the device may let
// them run beside the rest of the backward pass.
#pragma once

#include <vector>

#include "tessera/plan/plan.h"

namespace tessera {

// Fills Chunk::early. Only collectives in place and without a workspace, whose bytes the backward program
// would use for something else; and only of ranks of one pipeline stage, whose backward programs are the
// same: they meet in the same order.
void find_early_collectives(const Graph& graph, std::vector<Chunk>& chunks);

}  // namespace tessera
