#include "tessera/plan/fold_constants.h"

#include <algorithm>

#include "tessera/ops/op_def.h"

namespace tessera {

void fold_constants(Graph& graph) {
  const auto is_constant = [&](ValueId v) {
    const NodeId producer = graph.value(v).producer;
    return producer != kNoNode && graph.node(producer).phase == Phase::init;
  };
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    // `zeros` has no inputs, but starts an accumulation: it must be made anew each time.
    if (node.inputs.empty() || !std::all_of(node.inputs.begin(), node.inputs.end(), is_constant)) continue;
    node.phase = Phase::init;
  }
}

}  // namespace tessera
