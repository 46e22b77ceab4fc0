// Traffic report: every collective of a rank's step: over which ranks, how often, how many bytes, and why
// it is there. Printed by `tessera plan --collectives`; tests compare it with the textbook.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/mesh.h"
#include "tessera/partition/stages.h"

namespace tessera {

struct TrafficLine {
  Group group = Group::tp;
  std::string kind;  // "all_reduce", "send"
  Phase phase = Phase::forward;
  std::string value;  // what is converted; "layers.*.mlp.down" stands for the same in all layers
  std::string why;
  std::int64_t count = 0;    // per step
  std::int64_t payload = 0;  // bytes of the whole tensors, each time
  std::int64_t sent = 0;     // bytes that this rank sends each time, at the least

  std::int64_t sent_per_step() const { return count * sent; }
};

// `num_micro_batches`: how often forward and backward run in a step.
std::vector<TrafficLine> report_traffic(const Graph& graph, const std::vector<StageMessages>& messages,
                                        int num_micro_batches);

// Bytes sent per step over one group of ranks.
std::int64_t bytes_sent(const std::vector<TrafficLine>& lines, Group group);

}  // namespace tessera
