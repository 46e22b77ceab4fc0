#include "tessera/plan/first_additions.h"

#include <set>

#include "tessera/ops/op_def.h"

namespace tessera {

// The links of an accumulation are a chain of values, so within a chunk the first is the one that reads the
// graph's input itself. Backward passes run from the last chunk of a rank to its first.
void find_first_additions(const Graph& graph, std::vector<Chunk>& chunks) {
  std::set<ValueId> begun;
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    for (Step& step : chunk->programs[static_cast<std::size_t>(Phase::backward)]) {
      const Node& node = graph.node(step.node);
      for (const InPlace& pair : in_place_pairs(node)) {
        const ValueId into = node.inputs[pair.input];
        if (!pair.always || graph.value(into).role != Role::gradient) continue;
        if (begun.insert(into).second) step.first_additions.push_back(into);
      }
    }
  }
}

}  // namespace tessera
