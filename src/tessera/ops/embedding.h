// embedding: rows of a table chosen by ids.
#pragma once

#include "tessera/ops/op_def.h"

namespace tessera {

// table[V, D], ids[...] -> [..., D]
ValueId embedding(Graph& graph, std::string name, ValueId table, ValueId ids);

}  // namespace tessera
