// Evaluator: the loss of a model on samples, without training it. Reads the weights where they are: in a
// training step, on the ranks that it runs on, or in an executor of one rank.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/samples.h"
#include "tessera/runtime/executor.h"
#include "tessera/train/build_graph.h"
#include "tessera/train/training_step.h"

namespace tessera {

// Cross entropies summed over all scored targets of one prediction, however many a batch has of them.
struct PredictionLoss {
  std::string targets;
  double sum = 0;
  std::int64_t scored = 0;

  double mean() const { return sum / static_cast<double>(scored); }
};

struct EvaluatedLoss {
  std::vector<PredictionLoss> predictions;  // the tokens first

  double loss() const;        // as in training: the sum of the predictions' means
  double perplexity() const;  // of the tokens alone
};

class Evaluator {
 public:
  // On one rank, with another executor's weights.
  Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device, const Executor& weights_of);
  // On the ranks of a training step. `shape` of one dp rank's batch.
  Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device, TrainingStep& training);

  // Of the first num_samples; on several ranks collective. The same on every layout: rows of the last batch
  // beyond them are not scored. `progress` is told after each batch how many are done, and whether it returns
  // true, as on all ranks alike, decides whether the evaluation goes on.
  using Progress = std::function<bool(std::int64_t num_samples, const EvaluatedLoss&)>;
  EvaluatedLoss evaluate(
      const Samples& samples, std::int64_t num_samples,
      const Progress& progress = [](std::int64_t, const EvaluatedLoss&) { return true; });

  // One batch of random tokens, whose loss nobody reads: the device has then chosen its kernels and captured
  // the program, and no evaluation allocates anything. Collective, too.
  void warm_up(const Model& model);

  // Of one batch of B dp sequences.
  void add(std::span<const BatchInput> inputs, EvaluatedLoss& to);

  // Beside the weights, and beside what it works on where training's values lie.
  std::int64_t allocated_bytes() const { return executor_->allocated_bytes(); }

 private:
  void expect(std::vector<ExpectedInput> inputs);

  BatchShape shape_;
  std::vector<ExpectedInput> inputs_;
  std::vector<std::string> targets_;  // of the predictions
  const RankGroups* ranks_ = nullptr;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<StageRunner> runner_;
};

}  // namespace tessera
