#include "tessera/train/evaluate.h"

#include <algorithm>

namespace tessera {

Evaluator::Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device, const Executor* weights_of) {
  BuiltGraph built = build_loss_graph(model, shape, dtype);
  parameters_ = std::move(built.parameters);
  const PlanOptions options{.external_parameters = weights_of != nullptr};
  Plan plan = compile(
      built.graph, [&](const Graph& g, const Node& n) { return device.workspace_bytes(g, n); }, options);
  executor_ = std::make_unique<Executor>(std::move(built.graph), std::move(plan), device, weights_of);
}

double Evaluator::loss(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets) {
  const auto scored = std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
  TS_CHECK(scored > 0, "evaluation: the batch has no scored token");
  const float loss_scale = 1.0f / static_cast<float>(scored);
  executor_->write<float>(kLossScaleInput, {&loss_scale, 1});
  executor_->write<std::int32_t>(kIdsInput, ids);
  executor_->write<std::int32_t>(kTargetsInput, targets);
  executor_->run(Phase::forward);
  return static_cast<double>(executor_->read_scalar(kLossOutput));
}

}  // namespace tessera
