// verify: throws if a graph is not well formed; run after every pass that rewrites one.
#pragma once

#include "tessera/graph/graph.h"

namespace tessera {

// Checks, naming the node: inputs exist and are written before they are read, also across programs
// (init < forward < backward < update); every node's types are what its shape rule says; values that
// an op overwrites in place are read by nobody afterwards; outputs exist; state updates keep their types
// and are written in the state's own place.
void verify(const Graph& graph);

}  // namespace tessera
