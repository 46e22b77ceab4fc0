// find_first_additions: which steps are the first to add to a parameter's accumulator. In a step's first
// micro-batch they store instead where the device can (Device::can_start_sums); only other accumulators have
// to be cleared. Called by compile().
#pragma once

#include <vector>

#include "tessera/plan/plan.h"

namespace tessera {

// Fills Step::first_additions of the backward programs.
void find_first_additions(const Graph& graph, std::vector<Chunk>& chunks);

}  // namespace tessera
