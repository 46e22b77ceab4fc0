// MemoryReport: a plan's bytes by what they are for, its flops, and its biggest tensors; what
// `tessera plan` prints and what a run is checked against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/plan/plan.h"

namespace tessera {

struct MemoryReport {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer_state = 0;
  std::int64_t constants = 0;         // constants, scalars, outputs, and what aligning the above costs
  std::int64_t activations_kept = 0;  // all slots
  std::int64_t temporaries = 0;       // without the logits' scratch
  std::int64_t logits = 0;            // the loss's chunk of logits and its scratch
  std::int64_t total = 0;             // = the arena; the classes above add up to it

  std::int64_t num_parameters = 0;
  double forward_flops = 0;  // of one micro-batch
  double backward_flops = 0;
  double update_flops = 0;
};

MemoryReport report_memory(const Graph& graph, const Plan& plan);

struct BigTensor {
  std::string name;
  ValueType type;
  std::string place;  // "parameter", "kept", "temporary", ...
};
std::vector<BigTensor> biggest_tensors(const Graph& graph, const Plan& plan, std::size_t count);

}  // namespace tessera
