// CaseRun: a case, differentiated, compiled and ready to run on the CPU device in double.
#pragma once

#include <memory>
#include <vector>

#include "ops/op_check.h"
#include "tessera/runtime/executor.h"

namespace tessera {

// The same graph with every fused op replaced by its composition; returns the new id of `out`.
Graph compose_fused(const Graph& from, ValueId& out);

class CaseRun {
 public:
  enum class Fusion { fused, composed };

  // Marks the output "y" and appends the backward pass: from a random cotangent, or from the loss itself.
  CaseRun(const OpCase& op_case, Role role_of_reals, Fusion fusion, Device& device);

  void write(const std::string& input, const std::vector<double>& values);
  std::vector<double> forward();  // the value of "y"
  // Sum of y times the cotangent, whose gradient the backward pass computes.
  double objective();

  // Of every differentiated input, in the order of inputs(). Accumulators start at random numbers, which
  // are taken off again: an op that overwrote them instead of adding would be caught.
  std::vector<std::vector<double>> gradients();

  const std::vector<CaseGraph::Input>& inputs() const { return case_graph_.inputs(); }
  const Graph& graph() const { return executor_->graph(); }
  CaseValues values() const;

 private:
  CaseGraph case_graph_;
  std::vector<double> cotangent_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace tessera
