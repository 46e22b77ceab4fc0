// Evaluator: the loss of a model on batches, without training it. Reads the weights where a training
// step keeps them, or holds its own.
#pragma once

#include <memory>
#include <span>

#include "tessera/runtime/executor.h"
#include "tessera/train/build_graph.h"

namespace tessera {

class Evaluator {
 public:
  // With `weights_of` null, the executor has weights of its own, to be loaded.
  Evaluator(const Model& model, BatchShape shape, DType dtype, Device& device, const Executor* weights_of);

  // Mean loss over the scored tokens of one batch [B, T].
  double loss(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets);

  Executor& executor() { return *executor_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  std::vector<Parameter> parameters_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace tessera
