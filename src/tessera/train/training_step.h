// TrainingStep: one rank's compiled step: micro-batches in, one update out. Allocates when it is made, and
// nothing afterwards. On several ranks every call is collective: all give the same global batch, each takes
// its own sequences, and all get the same loss.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/models/model.h"
#include "tessera/train/build_graph.h"
#include "tessera/train/layout.h"
#include "tessera/train/micro_batch.h"
#include "tessera/train/stage_runner.h"
#include "tessera/train/weight_store.h"

namespace tessera {

struct StepResult {
  double loss = 0;  // of the whole global batch, before the update
  double grad_norm = 0;
  std::optional<double> parameter_norm;  // before the update, if the graph computes it
};

class TrainingStep {
 public:
  // `options.shape.batch` counts the sequences of one micro-batch of one dp rank. `world` has as many ranks
  // as the layout's mesh; null: one rank.
  TrainingStep(const Model& model, const TrainingGraphOptions& options, const Layout& layout,
               std::uint64_t seed, Device& device, Communicator* world = nullptr);

  // A global batch, a whole number of micro-batches: all inputs that the model has. `step` counts from 0. The
  // loss is the mean over all scored tokens of the global batch, however it is cut.
  StepResult run(std::span<const BatchInput> inputs, std::int64_t step, double learning_rate,
                 OpTimes* times = nullptr);
  // ids and targets [global_batch, T]: all that a causal model reads.
  StepResult run(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets, std::int64_t step,
                 double learning_rate, OpTimes* times = nullptr);

  // The two halves of run(), for those who look at gradients in between.
  double accumulate_gradients(std::span<const BatchInput> inputs, std::int64_t step,
                              OpTimes* times = nullptr);
  double accumulate_gradients(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                              std::int64_t step, OpTimes* times = nullptr);
  double update(std::int64_t step, double learning_rate, OpTimes* times = nullptr);  // returns the norm

  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  const WeightStore& weights() const { return *weights_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<ExpectedInput>& inputs() const { return inputs_; }  // of every batch
  const Layout& layout() const { return layout_; }
  const std::vector<int>& stage_of_layer() const { return stage_of_layer_; }
  const std::vector<PlacedTensor>& state() const { return state_; }
  const RankGroups* ranks() const { return ranks_.get(); }

 private:
  // Work is given to the device; nobody waits for it.
  void start_micro_batches(std::span<const BatchInput> inputs, std::int64_t step, bool update_follows,
                           OpTimes* times);
  void start_update(std::int64_t step, double learning_rate, OpTimes* times);
  double finished_loss() const;

  BatchShape shape_;  // of one rank's micro-batch
  Layout layout_;
  std::uint64_t seed_;
  std::vector<Parameter> parameters_;
  std::vector<ExpectedInput> inputs_;
  std::vector<int> stage_of_layer_;
  std::vector<PlacedTensor> state_;
  std::vector<float> losses_;  // of the micro-batches, where this rank has them
  float gradient_norm_ = 0, parameter_norm_ = 0;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<WeightStore> weights_;
  std::unique_ptr<StageRunner> runner_;
  std::unique_ptr<RankGroups> ranks_;  // goes first: what waits for a failed rank ends before its memory goes
};

// The sum over the ranks of a loss that each tp rank of the last stage has in full.
double sum_of_losses(double loss, const RankGroups* ranks);

}  // namespace tessera
