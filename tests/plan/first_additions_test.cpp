#include "tessera/plan/first_additions.h"

#include <gtest/gtest.h>

#include "tessera/ops/op_def.h"

namespace tessera {
namespace {

const ValueType kType{DType::f32, Shape{3}};

std::int64_t no_workspace(const Graph&, const Node&) {
  return 0;
}

// Node names of the steps that begin each accumulator, chunk by chunk.
std::vector<std::string> beginners(const Graph& graph, const Plan& plan) {
  std::vector<std::string> names;
  for (int chunk = 0; chunk < plan.num_chunks(); ++chunk) {
    for (const Step& step : plan.program(Phase::backward, chunk)) {
      for (ValueId v : step.first_additions)
        names.push_back(graph.node(step.node).name + " begins " + graph.value(v).name);
    }
  }
  return names;
}

TEST(FirstAdditions, TheFirstLinkOfAChainBeginsIt) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId sum = graph.add_input("sum", kType, Role::gradient);
  const ValueId one = emit(graph, Op::sum_to, Phase::backward, "one", {}, {sum, x})[0];
  const ValueId two = emit(graph, Op::sum_to, Phase::backward, "two", {}, {one, x})[0];
  graph.add_state_update(sum, two);
  const Plan plan = compile(graph, no_workspace);
  EXPECT_EQ(beginners(graph, plan), (std::vector<std::string>{"one begins sum"}));
}

// Micro-batches go back through a rank's last chunk first.
TEST(FirstAdditions, OfTwoChunksTheLastBegins) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch), y = graph.add_input("y", kType, Role::batch);
  const ValueId sum = graph.add_input("sum", kType, Role::gradient);
  graph.add_state_update(sum, emit(graph, Op::sum_to, Phase::backward, "early", {}, {sum, x})[0]);
  graph.add_state_update(sum, emit(graph, Op::sum_to, Phase::backward, "late", {}, {sum, y})[0]);
  graph.node(1).chunk = 1;
  PlanOptions options;
  options.num_slots = {1, 1};
  const Plan plan = compile(graph, no_workspace, options);
  EXPECT_EQ(beginners(graph, plan), (std::vector<std::string>{"late begins sum"}));
}

// What an optimizer overwrites is no sum of micro-batches.
TEST(FirstAdditions, OnlyBackwardProgramsBeginSums) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId sum = graph.add_input("sum", kType, Role::gradient);
  graph.add_state_update(sum, emit(graph, Op::sum_to, Phase::update, "update", {}, {sum, x})[0]);
  const Plan plan = compile(graph, no_workspace);
  EXPECT_TRUE(plan.program(Phase::update)[0].first_additions.empty());
}

}  // namespace
}  // namespace tessera
