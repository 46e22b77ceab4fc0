// make_executor: a graph planned for a device and given its arena: the last step before running. Used
// wherever train/ runs a graph; plan_on alone serves `tessera plan`, which allocates nothing.
#pragma once

#include <memory>
#include <vector>

#include "tessera/runtime/executor.h"

namespace tessera {

struct ExecutorOptions {
  std::vector<int> num_slots = {1};      // of each chunk
  const Executor* weights_of = nullptr;  // where the parameters lie, if not in its own arena
  bool shares_caches = false;            // they lie there, too
  const Executor* scratch_of = nullptr;  // whose kept and temporary values need not last while this one runs
  const RankGroups* ranks = nullptr;
};

Plan plan_on(const Device& device, const Graph& graph, PlanOptions options);
std::unique_ptr<Executor> make_executor(Device& device, Graph graph, const ExecutorOptions& options = {});

}  // namespace tessera
