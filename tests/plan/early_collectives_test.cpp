#include "tessera/plan/early_collectives.h"

#include <gtest/gtest.h>

#include "tessera/ops/collectives.h"
#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

const ValueType kGradient{DType::f32, Shape{3}};

// Accumulators that a backward program adds to, and an update program that sums them over ranks.
struct Builder {
  Graph graph;
  ValueId x = graph.add_input("x", kGradient, Role::batch);

  ValueId accumulator(const std::string& name) { return graph.add_input(name, kGradient, Role::gradient); }
  ValueId add(ValueId sum, const std::string& name) {
    const ValueId next = emit(graph, Op::sum_to, Phase::backward, name, {}, {sum, x})[0];
    return next;
  }
  std::vector<ValueId> reduce(const std::vector<ValueId>& values, Group group, const std::string& name) {
    return emit(graph, Op::all_reduce, Phase::update, name, CollectiveAttrs{.group = group, .num_ranks = 2},
                values);
  }
  void keep(ValueId before, ValueId after) { graph.add_state_update(before, after); }
  void output(ValueId value, const std::string& name) { graph.mark_output(name, value); }

  // "reduce a after add b"
  std::vector<std::string> early(std::int64_t workspace = 0, int num_chunks = 1) {
    PlanOptions options;
    options.num_slots.assign(static_cast<std::size_t>(num_chunks), 1);
    const Plan plan = compile(
        graph, [&](const Graph&, const Node& n) { return n.op == Op::all_reduce ? workspace : 0; }, options);
    std::vector<std::string> found;
    for (int chunk = 0; chunk < plan.num_chunks(); ++chunk) {
      for (const EarlyCollective& e : plan.chunks[static_cast<std::size_t>(chunk)].early) {
        const auto name = [&](Phase phase, int c, std::int32_t step) {
          return graph.node(plan.program(phase, c)[static_cast<std::size_t>(step)].node).name;
        };
        found.push_back(name(Phase::update, 0, e.step) + " after " + name(Phase::backward, chunk, e.after));
      }
    }
    return found;
  }
};

using Names = std::vector<std::string>;

TEST(EarlyCollectives, BeginWhenTheLastOfTheirSumsIsMade) {
  Builder b;
  const ValueId one = b.accumulator("one"), two = b.accumulator("two"), three = b.accumulator("three");
  // Backward: the last parameter is done first.
  b.keep(three, b.add(three, "add three"));
  b.keep(two, b.add(b.add(two, "add two"), "add two again"));
  b.keep(one, b.add(one, "add one"));
  b.output(b.reduce({one}, Group::dp, "reduce one")[0], "one");
  const auto both = b.reduce({two, three}, Group::dp, "reduce two and three");
  b.output(both[0], "two");
  b.output(both[1], "three");
  EXPECT_EQ(b.early(), (Names{"reduce two and three after add two again", "reduce one after add one"}));
}

TEST(EarlyCollectives, FollowEachOtherOnOneSum) {
  Builder b;
  const ValueId one = b.accumulator("one"), two = b.accumulator("two");
  b.keep(one, b.add(one, "add one"));
  b.keep(two, b.add(two, "add two"));
  const ValueId over_tp = b.reduce({one}, Group::tp, "over tp")[0];
  b.output(b.reduce({over_tp}, Group::dp, "over dp")[0], "one");
  b.output(b.reduce({two}, Group::dp, "two over dp")[0], "two");
  EXPECT_EQ(b.early(),
            (Names{"over tp after add one", "over dp after add one", "two over dp after add two"}));
}

TEST(EarlyCollectives, NeedNoWorkspaceAndNoOtherStage) {
  const auto reduced_over = [](Group group, std::int64_t workspace) {
    Builder b;
    const ValueId one = b.accumulator("one");
    b.keep(one, b.add(one, "add one"));
    b.output(b.reduce({one}, group, "reduce one")[0], "one");
    return b.early(workspace);
  };
  EXPECT_EQ(reduced_over(Group::dp, 0).size(), 1u);
  EXPECT_EQ(reduced_over(Group::dp, 256), Names{}) << "its bytes may be in use there";
  EXPECT_EQ(reduced_over(Group::ends, 0), Names{}) << "the other end has another backward program";
}

// A tied weight: over dp early, then between the ends with the update.
TEST(EarlyCollectives, OfATiedWeightEndBeforeTheOtherStageIsMet) {
  Builder b;
  const ValueId one = b.accumulator("one");
  b.keep(one, b.add(one, "add one"));
  const ValueId over_dp = b.reduce({one}, Group::dp, "over dp")[0];
  const ValueId over_ends = b.reduce({over_dp}, Group::ends, "over ends")[0];
  b.output(b.reduce({over_ends}, Group::tp, "again")[0], "one");
  EXPECT_EQ(b.early(), (Names{"over dp after add one"})) << "what follows a late one is late";
}

TEST(EarlyCollectives, WaitIfSeveralChunksAddToASum) {
  Builder b;
  const ValueId one = b.accumulator("one");
  b.keep(one, b.add(one, "of chunk 0"));
  b.keep(one, b.add(one, "of chunk 1"));
  b.graph.node(1).chunk = 1;
  b.output(b.reduce({one}, Group::dp, "reduce one")[0], "one");
  EXPECT_EQ(b.early(0, 2), Names{});
}

TEST(EarlyCollectives, WaitIfTheUpdateReadsTheTermsBefore) {
  Builder b;
  const ValueId one = b.accumulator("one");
  b.keep(one, b.add(one, "add one"));
  b.output(emit(b.graph, Op::scale, Phase::update, "look", ScaleAttrs{2.0}, {one})[0], "look");
  b.output(b.reduce({one}, Group::dp, "reduce one")[0], "one");
  EXPECT_EQ(b.early(), Names{});
}

}  // namespace
}  // namespace tessera
