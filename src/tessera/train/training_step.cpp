#include "tessera/train/training_step.h"

#include <algorithm>

namespace tessera {
namespace {

std::unique_ptr<Executor> compile_on(Device& device, Graph graph) {
  Plan plan = compile(graph, [&](const Graph& g, const Node& n) { return device.workspace_bytes(g, n); });
  return std::make_unique<Executor>(std::move(graph), std::move(plan), device);
}

}  // namespace

TrainingStep::TrainingStep(const Model& model, const TrainingGraphOptions& options, std::uint64_t seed, Device& device)
    : micro_batch_elems_(options.shape.batch * options.shape.seq_len), seed_(seed) {
  BuiltGraph built = build_training_graph(model, options);
  parameters_ = std::move(built.parameters);
  has_dropout_ = built.graph.find_input(kDropoutKeyInput) != kNoValue;
  executor_ = compile_on(device, std::move(built.graph));
}

double TrainingStep::accumulate_gradients(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                                          std::int64_t step, OpTimes* times) {
  const auto micro = static_cast<std::size_t>(micro_batch_elems_);
  TS_ASSERT(ids.size() == targets.size() && ids.size() % micro == 0 && !ids.empty());
  const auto scored = std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
  TS_CHECK(scored > 0, "step {}: the batch has no scored token", step);
  const float loss_scale = 1.0f / static_cast<float>(scored);
  executor_->write<float>(kLossScaleInput, {&loss_scale, 1});

  double loss = 0;
  for (std::size_t m = 0; m * micro < ids.size(); ++m) {
    executor_->write<std::int32_t>(kIdsInput, ids.subspan(m * micro, micro));
    executor_->write<std::int32_t>(kTargetsInput, targets.subspan(m * micro, micro));
    if (has_dropout_) {
      const std::int32_t key[4] = {static_cast<std::int32_t>(seed_), static_cast<std::int32_t>(seed_ >> 32),
                                   static_cast<std::int32_t>(step), static_cast<std::int32_t>(m)};
      executor_->write<std::int32_t>(kDropoutKeyInput, key);
    }
    executor_->run(Phase::forward, 0, times);
    executor_->run(Phase::backward, 0, times);
    loss += static_cast<double>(executor_->read_scalar(kLossOutput));
  }
  return loss;
}

double TrainingStep::update(std::int64_t step, double learning_rate, OpTimes* times) {
  const auto rate = static_cast<float>(learning_rate);
  const auto number = static_cast<std::int32_t>(step + 1);  // bias correction counts from 1
  executor_->write<float>(kLearningRateInput, {&rate, 1});
  executor_->write<std::int32_t>(kStepInput, {&number, 1});
  executor_->run(Phase::update, 0, times);
  return static_cast<double>(executor_->read_scalar(kGradNormOutput));
}

StepResult TrainingStep::run(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                             std::int64_t step, double learning_rate, OpTimes* times) {
  const double loss = accumulate_gradients(ids, targets, step, times);
  return {loss, update(step, learning_rate, times)};
}

}  // namespace tessera
