// Evaluator: the loss of a model on batches, without training it. Reads the weights where they are: in a
// training step, on the ranks that it runs on, or in an executor of one rank.
#pragma once

#include <memory>
#include <span>

#include "tessera/runtime/executor.h"
#include "tessera/train/build_graph.h"
#include "tessera/train/training_step.h"

namespace tessera {

class Evaluator {
 public:
  // On one rank, with another executor's weights.
  Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device, const Executor& weights_of);
  // On the ranks of a training step. `shape` of one dp rank's batch.
  Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device, TrainingStep& training);

  // Mean loss over the scored tokens of one batch of B dp sequences; on several ranks collective.
  double loss(std::span<const BatchInput> inputs);
  double loss(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets);  // [B dp, T]

 private:
  BatchShape shape_;
  std::vector<ExpectedInput> inputs_;
  const RankGroups* ranks_ = nullptr;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<StageRunner> runner_;
};

}  // namespace tessera
