#include "tessera/plan/memory_report.h"

#include <algorithm>

#include "tessera/base/alignment.h"
#include "tessera/ops/op_def.h"

namespace tessera {

MemoryReport report_memory(const Graph& graph, const Plan& plan) {
  MemoryReport report;
  for (ValueId v = 0; v < graph.num_values(); ++v) {
    const Value& value = graph.value(v);
    if (plan.locations[static_cast<std::size_t>(v)].region == Region::external) continue;
    const std::int64_t bytes = value.type.num_bytes();
    switch (value.role) {
      case Role::parameter:
        report.weights += bytes;
        report.num_parameters += value.type.shape.num_elems();
        break;
      case Role::gradient:
        report.gradients += bytes;
        break;
      case Role::optimizer_state:
        report.optimizer_state += bytes;
        break;
      default:
        break;
    }
  }
  report.constants = plan.persistent_bytes - report.weights - report.gradients - report.optimizer_state;
  report.activations_kept = plan.kept_bytes();
  double* const flops[kNumPhases] = {nullptr, &report.forward_flops, &report.backward_flops,
                                     &report.update_flops};
  for (int i = 0; i < kNumPhases * plan.num_chunks(); ++i) {
    const int p = i % kNumPhases;
    for (const Step& step : plan.program(static_cast<Phase>(p), i / kNumPhases)) {
      const Node& node = graph.node(step.node);
      if (flops[p]) *flops[p] += node_cost(graph, node).flops;
      const bool is_loss = node.op == Op::linear_cross_entropy || node.op == Op::linear_cross_entropy_grad;
      if (is_loss) report.logits = std::max(report.logits, align_up(step.workspace_bytes));
    }
  }
  report.temporaries = plan.temporary_bytes - report.logits;
  report.total = plan.arena_bytes();
  return report;
}

std::vector<BigTensor> biggest_tensors(const Graph& graph, const Plan& plan, std::size_t count) {
  std::vector<BigTensor> tensors;
  for (ValueId v = 0; v < graph.num_values(); ++v) {
    const Value& value = graph.value(v);
    const Region region = plan.locations[static_cast<std::size_t>(v)].region;
    if (region == Region::none) continue;
    // In-place successors of state share its bytes: list the state once.
    if (value.producer != kNoNode && region == Region::persistent) continue;
    const std::string_view place = value.role != Role::computed ? role_name(value.role)
                                   : region == Region::kept     ? std::string_view("kept")
                                                                : std::string_view("temporary");
    tensors.push_back({value.name, value.type, std::string(place)});
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const BigTensor& a, const BigTensor& b) {
    return a.type.num_bytes() > b.type.num_bytes();
  });
  if (tensors.size() > count) tensors.resize(count);
  return tensors;
}

}  // namespace tessera
