// TrainingStep: the compiled step of a run on its device: micro-batches in, one update out. Allocates
// when it is made, and nothing afterwards.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/models/model.h"
#include "tessera/runtime/executor.h"
#include "tessera/train/build_graph.h"

namespace tessera {

struct StepResult {
  double loss = 0;  // of the whole global batch, before the update
  double grad_norm = 0;
};

class TrainingStep {
 public:
  TrainingStep(const Model& model, const TrainingGraphOptions& options, std::uint64_t seed, Device& device);

  // A global batch of ids and targets [global_batch, T], a whole number of micro-batches. `step` counts
  // from 0. The loss is the mean over all scored tokens of the global batch, however it is cut.
  StepResult run(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets, std::int64_t step,
                 double learning_rate, OpTimes* times = nullptr);

  // The two halves of run(), for those who look at gradients in between.
  double accumulate_gradients(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                              std::int64_t step, OpTimes* times = nullptr);
  double update(std::int64_t step, double learning_rate, OpTimes* times = nullptr);  // returns the norm

  Executor& executor() { return *executor_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  std::int64_t micro_batch_elems_;
  std::uint64_t seed_;
  std::vector<Parameter> parameters_;
  std::unique_ptr<Executor> executor_;
  bool has_dropout_ = false;
};

}  // namespace tessera
