// fold_constants: nodes that depend on constants alone move to the init program and run once.
#pragma once

#include "tessera/graph/graph.h"

namespace tessera {

void fold_constants(Graph& graph);

}  // namespace tessera
