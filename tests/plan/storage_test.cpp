// Where what a pipeline stage receives lies: among a program's temporaries only if no other program needs it.
#include "tessera/plan/storage.h"

#include <gtest/gtest.h>

#include <map>

#include "tessera/ops/op_def.h"
#include "tessera/partition/stages.h"

namespace tessera {
namespace {

// Two stages. The second reads one activation in each program alone and one in both; the first gets a
// gradient.
Graph two_stages() {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {3}}, Role::batch);
  const auto node = [&](std::int32_t layer, Phase phase, Op op, const char* name,
                        std::vector<ValueId> inputs) {
    graph.set_layer(layer);
    return emit(graph, op, phase, name, {}, std::move(inputs))[0];
  };
  const ValueId for_forward = node(0, Phase::forward, Op::silu, "for_forward", {x});
  const ValueId for_backward = node(0, Phase::forward, Op::silu, "for_backward", {x});
  const ValueId for_both = node(0, Phase::forward, Op::silu, "for_both", {x});
  const ValueId y = node(1, Phase::forward, Op::mul, "y", {for_forward, for_both});
  const ValueId back = node(1, Phase::backward, Op::mul, "back", {for_backward, for_both});
  const ValueId gradient = node(1, Phase::backward, Op::mul, "gradient", {back, y});
  graph.mark_output("end", node(0, Phase::backward, Op::mul, "end", {gradient, x}));
  return graph;
}

// The regions of what stage `stage` of the two receives, by the name that the sender has for it. Nothing
// works in place, where a value would lie with its successor.
std::map<std::string, Region> received_regions(int stage) {
  const RankStages rank = cut_stages(two_stages(), {0, 1}, /*num_ranks=*/2, /*num_chunks=*/1, stage);
  const Plan plan =
      compile(rank.graph, [](const Graph&, const Node&) { return std::int64_t{0}; }, {.reuse_memory = false});
  std::map<std::string, Region> regions;
  for (const auto& list : {rank.messages[0].receive_activation, rank.messages[0].receive_gradient}) {
    for (ValueId v : list) {
      const std::string& name = rank.graph.value(v).name;
      regions[name.substr(0, name.find('.'))] = plan.locations[static_cast<std::size_t>(v)].region;
    }
  }
  return regions;
}

// It arrives before forward, whose temporaries would overwrite it.
TEST(Storage, AnActivationThatBackwardReadsIsKeptEvenIfForwardDoesNot) {
  EXPECT_EQ(received_regions(1), (std::map<std::string, Region>{{"for_forward", Region::temporary},
                                                                {"for_backward", Region::kept},
                                                                {"for_both", Region::kept}}));
}

TEST(Storage, AGradientLivesInTheBackwardProgramAlone) {
  EXPECT_EQ(received_regions(0), (std::map<std::string, Region>{{"gradient", Region::temporary}}));
}

// Four stages on two ranks; the last reads what the first makes, so the third, rank 0's second, passes it on.
TEST(Storage, WhatAStageOnlyPassesOnLiesInItsOwnSlots) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {3}}, Role::batch);
  const ValueId skip = emit(graph, Op::silu, Phase::forward, "skip", {}, {x})[0];
  ValueId h = x;
  for (std::int32_t layer = 0; layer < 3; ++layer) {
    graph.set_layer(layer);
    h = emit(graph, Op::silu, Phase::forward, "h", {}, {h})[0];
  }
  graph.set_layer(3);
  graph.mark_output("end", emit(graph, Op::mul, Phase::forward, "end", {}, {h, skip})[0]);

  const RankStages rank = cut_stages(graph, {0, 1, 2, 3}, /*num_ranks=*/2, /*num_chunks=*/2, /*rank=*/0);
  const Plan plan =
      compile(rank.graph, [](const Graph&, const Node&) { return std::int64_t{0}; }, {.num_slots = {1, 3}});
  const ValueId passed_on = rank.graph.find_input("skip.received@1");
  ASSERT_NE(passed_on, kNoValue);
  EXPECT_EQ(plan.locations[static_cast<std::size_t>(passed_on)].region, Region::kept);
  EXPECT_EQ(plan.locations[static_cast<std::size_t>(passed_on)].chunk, 1);
  EXPECT_GE(plan.chunks[1].kept_bytes, rank.graph.type(passed_on).num_bytes());
}

}  // namespace
}  // namespace tessera
