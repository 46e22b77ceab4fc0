#include "tessera/graph/graph.h"

#include <gtest/gtest.h>

#include "tessera/graph/dump.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_def.h"
#include "tessera/ops/rms_norm.h"

namespace tessera {
namespace {

// A bit of every program: a constant, a norm with two outputs, an accumulator and its update.
Graph small_graph() {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {2, 3}}, Role::batch);
  const ValueId weight = graph.add_input("norm.weight", {DType::f32, {3}}, Role::parameter);
  const ValueId sum = graph.add_input("grad.norm.weight", {DType::f32, {3}}, Role::gradient);
  const ValueId y = rms_norm(graph, "norm", x, weight, 1e-5);
  const ValueId next = emit(graph, Op::sum_to, Phase::backward, "norm.sum", {}, {sum, y})[0];
  graph.add_state_update(sum, next);
  graph.mark_output("y", y);
  return graph;
}

TEST(Graph, DumpsAsText) {
  EXPECT_EQ(dump_text(small_graph()),
            "batch     x : f32[2,3]\n"
            "parameter norm.weight : f32[3]\n"
            "gradient  grad.norm.weight : f32[3]\n"
            "forward   norm = rms_norm(x, norm.weight) eps=1e-05 -> f32[2,3] f32[2]\n"
            "backward  norm.sum = sum_to(grad.norm.weight, norm) -> f32[3]\n"
            "state     grad.norm.weight <- norm.sum\n"
            "output    y = norm\n");
}

TEST(Graph, DumpsForGraphviz) {
  EXPECT_EQ(dump_dot(small_graph()), R"(digraph tessera {
  rankdir=TB; node [fontname="sans-serif", fontsize=10];
  v0 [shape=ellipse, label="x\nf32[2,3]"];
  v1 [shape=ellipse, label="norm.weight\nf32[3]"];
  v2 [shape=ellipse, label="grad.norm.weight\nf32[3]"];
  n0 [shape=box, style=filled, fillcolor="#d7e8fa", label="rms_norm\nnorm"];
  v0 -> n0 [label="f32[2,3]", fontsize=8];
  v1 -> n0 [label="f32[3]", fontsize=8];
  n1 [shape=box, style=filled, fillcolor="#fbe3d0", label="sum_to\nnorm.sum"];
  v2 -> n1 [label="f32[3]", fontsize=8];
  n0 -> n1 [label="f32[2,3]", fontsize=8];
}
)");
}

TEST(Graph, NamesFurtherOutputsAfterTheNode) {
  const Graph graph = small_graph();
  EXPECT_EQ(graph.value(graph.node(0).outputs[0]).name, "norm");
  EXPECT_EQ(graph.value(graph.node(0).outputs[1]).name, "norm:1");
}

TEST(Graph, FindsInputsAndOutputsByName) {
  const Graph graph = small_graph();
  EXPECT_EQ(graph.find_input("norm.weight"), 1);
  EXPECT_EQ(graph.find_input("norm"), kNoValue);  // a node's value is no input
  EXPECT_EQ(graph.find_output("y"), graph.node(0).outputs[0]);
  EXPECT_EQ(graph.find_output("norm"), kNoValue);
}

TEST(Graph, RefusesAnInputTwiceAndAnEmptyDim) {
  Graph graph;
  graph.add_input("x", {DType::f32, {2}}, Role::batch);
  const auto message = [&](const char* name, const Shape& shape) -> std::string {
    try {
      graph.add_input(name, {DType::f32, shape}, Role::parameter);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("x", {3}), "graph input 'x' is defined twice");
  EXPECT_EQ(message("y", {3, 0}), "graph input 'y' has shape [3,0]: every dim must be at least 1");
  EXPECT_EQ(graph.num_values(), 1);
}

TEST(LiveNodes, AreWhatOutputsAndStateNeed) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {3}}, Role::batch);
  const ValueId state = graph.add_input("state", {DType::f32, {3}}, Role::gradient);
  const ValueId a = scale(graph, "a", x, 2.0);  // 0: the output needs it
  scale(graph, "unused", a, 2.0);               // 1
  const ValueId b = scale(graph, "b", x, 3.0);  // 2: the state needs it
  const ValueId next = emit(graph, Op::sum_to, Phase::backward, "c", {}, {state, b})[0];  // 3
  const ValueId dead = scale(graph, "dead", x, 4.0);                                      // 4
  scale(graph, "dead too", dead, 4.0);                                                    // 5
  const ValueId y = add(graph, "y", a, x);                                                // 6
  EXPECT_TRUE(live_nodes(graph).empty());
  graph.mark_output("y", y);
  EXPECT_EQ(live_nodes(graph), (std::vector<NodeId>{0, 6}));
  graph.add_state_update(state, next);
  EXPECT_EQ(live_nodes(graph), (std::vector<NodeId>{0, 2, 3, 6}));
}

}  // namespace
}  // namespace tessera
