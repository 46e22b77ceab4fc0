// Pairs of steps that a device runs as one, over random graphs and a made-up device that fuses what it can.
#include "tessera/plan/fuse_steps.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/memory_simulation.h"
#include "plan/random_graph.h"

namespace tessera {
namespace {

constexpr std::int64_t kWorkspaceBytes = 512;

bool second_reads_first(const Graph&, const Node& first, const Node& second) {
  return std::find(second.inputs.begin(), second.inputs.end(), first.outputs[0]) != second.inputs.end();
}

Plan plan_with_pairs(const Graph& graph) {
  return compile(graph, [](const Graph&, const Node&) { return kWorkspaceBytes; },
                 {.fuses = second_reads_first});
}

struct Bytes {
  Region region;
  std::int32_t chunk;
  std::int64_t begin, end;
  bool overlap(const Bytes& other) const {
    return region == other.region && chunk == other.chunk && begin < other.end && other.begin < end;
  }
};

Bytes bytes_of(const Graph& graph, const Plan& plan, ValueId v) {
  const Location& at = plan.locations[static_cast<std::size_t>(v)];
  return {at.region, at.region == Region::kept ? at.chunk : 0, at.offset,
          at.offset + graph.type(v).num_bytes()};
}

Bytes workspace_of(const Step& step) {
  return {Region::temporary, 0, step.workspace_offset, step.workspace_offset + step.workspace_bytes};
}

// What a kernel of both nodes writes at its end lies on nothing that it still reads, but for what the second
// node may overwrite by its own rules.
void expect_pair_apart(const Graph& graph, const Plan& plan, const Step& first, const Step& second) {
  const Node &a = graph.node(first.node), &b = graph.node(second.node);
  EXPECT_FALSE(workspace_of(first).overlap(workspace_of(second)));
  for (ValueId output : b.outputs) {
    const Bytes written = bytes_of(graph, plan, output);
    EXPECT_FALSE(written.overlap(workspace_of(first))) << b.name;
    for (ValueId input : a.inputs) {
      if (std::find(b.inputs.begin(), b.inputs.end(), input) != b.inputs.end()) continue;
      const Bytes read = bytes_of(graph, plan, input);
      if (!written.overlap(read)) continue;
      // Only through a value that must share its place: an accumulator of the first node.
      const std::vector<InPlace> in_place = in_place_pairs(a);
      EXPECT_TRUE(
          std::any_of(in_place.begin(), in_place.end(),
                      [&](const InPlace& pair) { return pair.always && a.inputs[pair.input] == input; }))
          << b.name << " on " << graph.value(input).name;
    }
  }
  for (ValueId input : b.inputs) EXPECT_FALSE(bytes_of(graph, plan, input).overlap(workspace_of(first)));
}

TEST(FuseSteps, APairsMemoryLivesAsLongAsThePair) {
  std::int64_t num_pairs = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph random(seed);
    const Plan plan = plan_with_pairs(random.graph());
    MemorySimulation memory(random.graph(), plan);  // nodes one by one, in the plan's order
    for (int p : {1, 2, 3}) memory.run(static_cast<Phase>(p), 0);
    for (const auto& steps : plan.chunks[0].programs) {
      for (std::size_t s = 1; s < steps.size(); ++s) {
        if (!steps[s].fused) continue;
        ++num_pairs;
        EXPECT_FALSE(steps[s - 1].fused) << "a node in two pairs";
        EXPECT_TRUE(second_reads_first(random.graph(), random.graph().node(steps[s - 1].node),
                                       random.graph().node(steps[s].node)));
        expect_pair_apart(random.graph(), plan, steps[s - 1], steps[s]);
      }
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(num_pairs, 1000);
}

TEST(FuseSteps, MovesTheSecondUpOnlyPastWhatItDoesNotNeed) {
  const ValueType type{DType::f32, Shape{2, 3}};
  Graph graph;
  const ValueId x = graph.add_input("x", type, Role::batch);
  const ValueId a = scale(graph, "a", x, 2.0);
  const ValueId between = scale(graph, "between", x, 3.0);
  const ValueId sum = add(graph, "sum", a, between);  // needs `between`
  const ValueId other = scale(graph, "other", a, 4.0);
  graph.mark_output("sum", sum);
  graph.mark_output("other", other);
  std::vector<Step> steps;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) steps.push_back({.node = n});
  fuse_steps(graph, steps, [&](const Graph&, const Node& first, const Node& second) {
    return first.name == "a" && (second.name == "sum" || second.name == "other");
  });
  std::vector<std::string> names;
  for (const Step& step : steps) names.push_back(graph.node(step.node).name + (step.fused ? "+" : ""));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "other+", "between", "sum"}));
}

}  // namespace
}  // namespace tessera
