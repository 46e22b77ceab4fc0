// Storage assignment: which values share bytes (an op that works in place), in which region those
// bytes lie and how long they are needed. The middle step of compile(), apart for its tests.
#pragma once

#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/plan/plan.h"

namespace tessera {

struct ProgramId {
  Phase phase = Phase::init;
  std::int32_t chunk = 0;
  bool operator==(const ProgramId&) const = default;
};

struct Storage {
  Region region = Region::none;
  std::int64_t bytes = 0;
  ProgramId program;       // of a temporary: the one it lives in; of a kept value: the chunk counts
  std::int32_t first = 0;  // its life, in steps of that program
  std::int32_t last = 0;
};

struct StorageMap {
  std::vector<Storage> storages;
  std::vector<std::int32_t> of_value;  // index into storages, -1 for dead values
};

// When a step runs, in steps: its own number, or those of the pair it is fused into.
struct StepTime {
  std::int32_t first = 0, last = 0;
};
StepTime step_time(const std::vector<Step>& steps, std::size_t step);

// `programs` holds the steps of every program and nothing else yet.
StorageMap assign_storage(const Graph& graph, const Plan& programs, const PlanOptions& options);

}  // namespace tessera
