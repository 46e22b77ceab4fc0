// Properties of plans over random graphs. The seed of a failing graph is in the trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <set>
#include <vector>

#include "plan/memory_simulation.h"
#include "plan/random_graph.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/base/philox.h"
#include "tessera/plan/storage.h"
#include "tessera/runtime/executor.h"

namespace tessera {
namespace {

constexpr std::uint64_t kNumGraphs = 400;

class CompileTest : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device(2);

  Plan plan(const Graph& graph, const PlanOptions& options = {}) {
    return compile(
        graph, [&](const Graph& g, const Node& n) { return device_->workspace_bytes(g, n); }, options);
  }
};

// Two steps of `num_slots` micro-batches each, all forward before all backward.
void simulate(const Graph& graph, const Plan& plan) {
  MemorySimulation memory(graph, plan);
  const int num_slots = plan.chunks[0].num_slots;
  for (int step = 0; step < 2; ++step) {
    for (int slot = 0; slot < num_slots; ++slot) memory.run(Phase::forward, slot);
    for (int slot = 0; slot < num_slots; ++slot) memory.run(Phase::backward, slot);
    memory.run(Phase::update, num_slots - 1);
  }
}

TEST_F(CompileTest, NoValueIsOverwrittenBeforeItsLastReader) {
  for (std::uint64_t seed = 0; seed < kNumGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph random(seed);
    for (const PlanOptions& options :
         {PlanOptions{}, PlanOptions{.num_slots = {3}}, PlanOptions{.reuse_memory = false}}) {
      simulate(random.graph(), plan(random.graph(), options));
      ASSERT_FALSE(HasFailure()) << "slots " << options.num_slots[0] << ", reuse " << options.reuse_memory;
    }
  }
}

// The sum over the live storages and workspaces of each step: no packing can do with less.
std::int64_t lower_bound(const Graph& graph, const Plan& plan) {
  const StorageMap map = assign_storage(graph, plan, {});
  std::int64_t most = 0;
  for (int p = 0; p < kNumPhases; ++p) {
    const auto phase = static_cast<Phase>(p);
    for (std::size_t s = 0; s < plan.program(phase).size(); ++s) {
      const auto at = static_cast<std::int32_t>(s);
      std::int64_t live = align_up(plan.program(phase)[s].workspace_bytes);
      for (const Storage& storage : map.storages) {
        const bool here = storage.region == Region::temporary && storage.program == ProgramId{phase, 0};
        if (here && storage.first <= at && at <= storage.last) live += align_up(storage.bytes);
      }
      most = std::max(most, live);
    }
  }
  return most;
}

TEST_F(CompileTest, TemporariesPackCloseToTheLowerBound) {
  double sum = 0, worst = 0;
  int count = 0;
  for (std::uint64_t seed = 0; seed < kNumGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomGraph random(seed);
    const Plan packed = plan(random.graph());
    const std::int64_t least = lower_bound(random.graph(), packed);
    ASSERT_GE(packed.temporary_bytes, least);
    ASSERT_LE(packed.temporary_bytes, plan(random.graph(), {.reuse_memory = false}).temporary_bytes);
    if (least == 0) continue;
    const double ratio = static_cast<double>(packed.temporary_bytes) / static_cast<double>(least);
    sum += ratio;
    worst = std::max(worst, ratio);
    ++count;
  }
  ASSERT_GT(count, 0);
  std::cout << fmt::format("packed / lower bound over {} graphs: mean {:.4f}, worst {:.4f}\n", count,
                           sum / count, worst);
  EXPECT_LT(sum / count, 1.05);
}

void fill_inputs(Executor& executor) {
  const Graph& graph = executor.graph();
  for (const Value& value : graph.values()) {
    if (value.producer != kNoNode) continue;
    const TensorView view = executor.input(value.name);
    if (view.dtype == DType::i32) {
      executor.write<std::int32_t>(value.name, std::vector<std::int32_t>{3});
      continue;
    }
    std::vector<float> values;
    for (std::int64_t i = 0; i < view.num_elems(); ++i) {
      const float normal = philox_normal(1, name_hash(value.name), static_cast<std::uint64_t>(i));
      values.push_back(value.role == Role::optimizer_state ? std::abs(normal) : normal);
    }
    executor.write<float>(value.name, values);
  }
}

// All inputs, which hold the state, and all outputs, after two steps of two micro-batches.
std::vector<std::byte> bytes_after_two_steps(Executor& executor) {
  fill_inputs(executor);
  for (int step = 0; step < 2; ++step) {
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      executor.run(Phase::forward);
      executor.run(Phase::backward);
    }
    executor.run(Phase::update);
  }
  std::vector<std::byte> bytes;
  const auto append = [&](const TensorView& view) {
    const auto* data = static_cast<const std::byte*>(view.data);
    bytes.insert(bytes.end(), data, data + view.num_bytes());
  };
  for (const Value& value : executor.graph().values()) {
    if (value.producer == kNoNode) append(executor.input(value.name));
  }
  for (const Output& output : executor.graph().outputs()) append(executor.output(output.name));
  return bytes;
}

TEST_F(CompileTest, ReusingMemoryChangesNoBit) {
  for (std::uint64_t seed = 0; seed < kNumGraphs / 2; ++seed) {
    const RandomGraph random(seed);
    Executor apart(random.graph(), plan(random.graph(), {.reuse_memory = false}), *device_);
    Executor packed(random.graph(), plan(random.graph()), *device_);
    ASSERT_TRUE(bytes_after_two_steps(apart) == bytes_after_two_steps(packed)) << "seed " << seed;
  }
}

TEST_F(CompileTest, SamePlanEveryTime) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const RandomGraph first(seed), again(seed);
    const Plan a = plan(first.graph()), b = plan(again.graph());
    EXPECT_EQ(dump_text(first.graph(), a), dump_text(again.graph(), b)) << "seed " << seed;
    EXPECT_EQ(plan_hash(first.graph(), a), plan_hash(again.graph(), b)) << "seed " << seed;
    hashes.insert(plan_hash(first.graph(), a));
  }
  EXPECT_EQ(hashes.size(), 50u);
}

TEST_F(CompileTest, HashSeesAttributesAndPlaces) {
  const auto hash = [&](double factor, int num_slots) {
    Graph graph;
    const ValueId x = graph.add_input("x", {DType::f32, {64, 64}}, Role::batch);
    graph.mark_output("y", scale(graph, "y", x, factor));
    return plan_hash(graph, plan(graph, {.num_slots = {num_slots}}));
  };
  EXPECT_EQ(hash(2.0, 1), hash(2.0, 1));
  EXPECT_NE(hash(2.0, 1), hash(3.0, 1));
  EXPECT_NE(hash(2.0, 1), hash(2.0, 2));
}

TEST_F(CompileTest, RefusesABrokenGraph) {
  Graph graph;
  graph.mark_output("loss", kNoValue);
  EXPECT_THROW(plan(graph), Error);
}

}  // namespace
}  // namespace tessera
