#include "tessera/runtime/make_executor.h"

namespace tessera {

Plan plan_on(const Device& device, const Graph& graph, PlanOptions options) {
  options.fuses = [&](const Graph& g, const Node& first, const Node& second) {
    return device.fuses(g, first, second);
  };
  return compile(
      graph, [&](const Graph& g, const Node& n) { return device.workspace_bytes(g, n); }, options);
}

std::unique_ptr<Executor> make_executor(Device& device, Graph graph, const ExecutorOptions& options) {
  Plan plan = plan_on(device, graph,
                      {.num_slots = options.num_slots,
                       .external_parameters = options.weights_of != nullptr,
                       .external_caches = options.shares_caches});
  return std::make_unique<Executor>(std::move(graph), std::move(plan), device, options.weights_of,
                                    options.ranks, options.scratch_of);
}

}  // namespace tessera
