// partition: the single-device training graph becomes the graph of one rank of a dp x tp mesh.
//
// Node by node, in order, and for each axis: the op's placement rule lists the ways to run it, the one that
// moves the fewest bytes is taken, and what its operands lack is converted by a collective. All ranks get
// the same graph. The pipeline axis comes afterwards: stages.h cuts the result.
//
// What decides:
//   - weights never move. A matrix that nothing has placed yet is cut over tp if the op can; a weight lies
//     whole on every dp rank
//   - a partial value that something reads is summed once, for all its readers: to replicated, or with
//     `sequence` to a shard of the sequence
//   - gradients are summed when the update begins, in buckets; with `zero1` each dp rank gets a range
#pragma once

#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/partition/placed.h"

namespace tessera {

struct PartitionOptions {
  Mesh mesh;
  bool sequence = false;  // norms, dropout and residuals on a tp rank's part of the sequence
  bool zero1 = false;     // optimizer state on a dp rank's range
  std::int64_t bucket_bytes = std::int64_t{64} << 20;  // of gradients or weights in one collective
  std::vector<int> stage_of_layer = {};                // empty: one stage
  // How the training graph placed the parameters, for graphs that share its weights.
  const std::vector<PlacedTensor>* weights = nullptr;
};

struct Partitioned {
  Graph graph;
  std::vector<PlacedTensor> state;
  int head_copies = 1;  // ranks of a `heads` group
};

Partitioned partition(const Graph& whole, const PartitionOptions& options);

}  // namespace tessera
