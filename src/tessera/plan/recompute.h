// Recompute: what backward needs of forward is kept, or computed again next to its gradient.
//
// `selective` computes the cheap things again: norms and activation functions, whose inputs are kept
// anyway. It costs about one per cent of the step and saves close to half of the kept bytes.
#pragma once

#include <string_view>

#include "tessera/graph/graph.h"

namespace tessera {

enum class Recompute : std::uint8_t { none, selective };

// The same graph with clones of the recomputed nodes in the backward program. Values have new ids:
// find inputs and outputs by name.
Graph apply_recompute(const Graph& graph, Recompute mode);

}  // namespace tessera
