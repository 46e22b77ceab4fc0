// Every rule of verify(), broken on purpose: add_node does not check what it is given.
#include "tessera/ops/verify.h"

#include <gtest/gtest.h>

#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_def.h"
#include "tessera/ops/optimizer_ops.h"

namespace tessera {
namespace {

const ValueType kType{DType::f32, Shape{2, 3}};

std::string complaint(const Graph& graph) {
  try {
    verify(graph);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<ValueId> add_raw(Graph& graph, Op op, Phase phase, const char* name, std::vector<ValueId> inputs,
                             const ValueType& output = kType) {
  return graph.add_node(op, phase, name, {}, std::move(inputs), std::span(&output, 1));
}

TEST(Verify, AcceptsAGraphOfAllPrograms) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId sum = graph.add_input("sum", kType, Role::gradient);
  const ValueId y = add(graph, "y", x, x);
  const ValueId next = emit(graph, Op::sum_to, Phase::backward, "next", {}, {sum, y})[0];
  // The update reads what backward left in `sum`.
  emit(graph, Op::sum_squares, Phase::update, "squares", {}, {sum});
  graph.add_state_update(sum, next);
  graph.mark_output("y", y);
  EXPECT_EQ(complaint(graph), "");
}

TEST(Verify, InputThatDoesNotExist) {
  for (ValueId missing : {kNoValue, 7}) {
    Graph graph;
    const ValueId x = graph.add_input("x", kType, Role::batch);
    add_raw(graph, Op::add, Phase::forward, "node", {x, missing});
    EXPECT_EQ(complaint(graph), fmt::format("node node: input {} does not exist", missing));
  }
}

TEST(Verify, ReadBeforeWritten) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId later = x + 2;  // the output of the node after
  add_raw(graph, Op::add, Phase::forward, "first", {x, later});
  add_raw(graph, Op::add, Phase::forward, "second", {x, x});
  EXPECT_EQ(complaint(graph), "node first reads second before node second writes it");
}

TEST(Verify, ReadOfALaterProgram) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId late = add_raw(graph, Op::add, Phase::backward, "late", {x, x})[0];
  add_raw(graph, Op::add, Phase::forward, "early", {x, late});
  EXPECT_EQ(complaint(graph),
            "node early of the forward program reads late, which the later backward program writes");
}

TEST(Verify, TypesThatTheShapeRuleRefuses) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId wide = graph.add_input("wide", {DType::f32, Shape{2, 4}}, Role::batch);
  add_raw(graph, Op::mul, Phase::forward, "node", {x, wide});
  EXPECT_EQ(complaint(graph), "[mul] node: input 0 is f32[2,3], input 1 is f32[2,4]: they must be the same");
}

TEST(Verify, OutputOfAnotherType) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  add_raw(graph, Op::mul, Phase::forward, "node", {x, x}, {DType::f32, Shape{2, 4}});
  EXPECT_EQ(complaint(graph), "node node: output 0 is f32[2,4], expected f32[2,3]");
}

TEST(Verify, TooManyOutputs) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueType two[] = {kType, kType};
  graph.add_node(Op::mul, Phase::forward, "node", {}, {x, x}, two);
  EXPECT_EQ(complaint(graph), "node node: has 2 outputs, mul makes 1");
}

TEST(Verify, ReadAfterOverwritten) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId sum = graph.add_input("sum", kType, Role::gradient);
  emit(graph, Op::sum_to, Phase::backward, "first", {}, {sum, x});
  emit(graph, Op::sum_to, Phase::backward, "second", {}, {sum, x});
  EXPECT_EQ(complaint(graph), "node second reads sum after node first has overwritten it");
}

TEST(Verify, ComputedValueOverwrittenInAnEarlierProgram) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId zero = emit(graph, Op::zeros, Phase::backward, "zero", ZerosAttrs{kType}, {})[0];
  emit(graph, Op::sum_to, Phase::backward, "sum", {}, {zero, x});
  emit(graph, Op::sum_squares, Phase::update, "squares", SumSquaresAttrs{}, {zero});
  EXPECT_EQ(complaint(graph), "node squares reads zero after node sum has overwritten it");
}

TEST(Verify, OutputOverwrittenBeforeItIsRead) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId zero = emit(graph, Op::zeros, Phase::backward, "zero", ZerosAttrs{kType}, {})[0];
  emit(graph, Op::sum_to, Phase::backward, "sum", {}, {zero, x});
  graph.mark_output("nothing", zero);
  EXPECT_EQ(complaint(graph), "node sum overwrites zero, made for 'nothing'");
}

TEST(Verify, OutputWithoutAValue) {
  Graph graph;
  graph.mark_output("loss", kNoValue);
  EXPECT_EQ(complaint(graph), "output 'loss' has no value");
}

TEST(Verify, StateUpdateOfAnotherType) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId state = graph.add_input("state", {DType::f32, Shape{3}}, Role::gradient);
  graph.add_state_update(state, add(graph, "y", x, x));
  EXPECT_EQ(complaint(graph), "state state is f32[3], its update f32[2,3]");
}

TEST(Verify, StateUpdateInAnotherPlace) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType, Role::batch);
  const ValueId state = graph.add_input("state", kType, Role::gradient);
  graph.add_state_update(state, add(graph, "y", state, x));
  EXPECT_EQ(complaint(graph), "state state: its update y is not written in its place");
}

TEST(Verify, StateUpdateWithoutAValue) {
  Graph graph;
  const ValueId state = graph.add_input("state", kType, Role::gradient);
  graph.add_state_update(state, kNoValue);
  EXPECT_EQ(complaint(graph), "state update of value 0 by value -1: no such value");
}

}  // namespace
}  // namespace tessera
