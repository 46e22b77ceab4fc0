// MemorySimulation: runs a plan on tags instead of numbers. Every block of the arena holds the tag of the
// value last written there; a step whose inputs do not hold their own tags reads something else's bytes.
// It knows nothing of how the plan was made: regions, offsets and the ops' in-place rules are all it sees.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "tessera/base/alignment.h"
#include "tessera/ops/op_def.h"
#include "tessera/plan/plan.h"

namespace tessera {

class MemorySimulation {
 public:
  MemorySimulation(const Graph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), blocks_(static_cast<std::size_t>(plan.arena_bytes() / kAlignment)) {
    for (ValueId v = 0; v < graph.num_values(); ++v) {
      if (graph.value(v).producer != kNoNode) continue;
      for (int slot = 0; slot < plan.chunks[0].num_slots; ++slot) write(v, slot);
    }
    run(Phase::init, 0);
  }

  void run(Phase phase, int slot) {
    for (const Step& step : plan_.program(phase)) {
      run_step(step, slot);
      if (testing::Test::HasFailure()) return;
    }
    // What is now in a state's place is the state.
    for (const StateUpdate& update : graph_.state_updates()) {
      if (graph_.node(graph_.value(update.after).producer).phase == phase) write(update.before, slot);
    }
    // The host may read outputs after the step; with several slots, after the program that makes them.
    for (const Output& output : graph_.outputs()) {
      const NodeId producer = graph_.value(output.value).producer;
      if (producer == kNoNode || graph_.node(producer).phase > phase) continue;
      if (graph_.node(producer).phase == phase || plan_.chunks[0].num_slots == 1)
        expect_holds(output.value, slot);
    }
  }

 private:
  struct Range {
    std::int64_t begin = 0, end = 0;  // in blocks
    bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
    bool operator==(const Range&) const = default;
  };
  struct Tag {
    ValueId value = kNoValue;
    int slot = 0;
    bool operator==(const Tag&) const = default;
  };
  static constexpr ValueId kWorkspace = -2;

  Range range(Region region, std::int64_t offset, std::int64_t bytes, int slot) const {
    EXPECT_NE(region, Region::none);
    EXPECT_EQ(offset % kAlignment, 0);
    std::int64_t base = offset;
    if (region == Region::kept) base += plan_.persistent_bytes + slot * plan_.chunks[0].kept_bytes;
    if (region == Region::temporary) base += plan_.persistent_bytes + plan_.kept_bytes();
    const std::int64_t limit = region == Region::persistent ? plan_.persistent_bytes
                               : region == Region::kept     ? plan_.chunks[0].kept_bytes
                                                            : plan_.temporary_bytes;
    EXPECT_LE(offset + bytes, limit) << "outside of its region";
    return {base / kAlignment, align_up(base + bytes) / kAlignment};
  }
  Range range_of(ValueId v, int slot) const {
    const Location& at = plan_.locations[static_cast<std::size_t>(v)];
    return range(at.region, at.offset, graph_.type(v).num_bytes(), slot);
  }

  // The micro-batch a value belongs to; states, constants and scalars belong to none.
  int owner_slot(ValueId v, int slot) const {
    const Value& value = graph_.value(v);
    if (value.producer == kNoNode) return value.role == Role::batch ? slot : 0;
    const Phase phase = graph_.node(value.producer).phase;
    return phase == Phase::forward || phase == Phase::backward ? slot : 0;
  }
  void write(ValueId v, int slot) { fill(range_of(v, slot), {v, owner_slot(v, slot)}); }
  void fill(const Range& where, const Tag& tag) {
    for (std::int64_t b = where.begin; b < where.end; ++b) blocks_[static_cast<std::size_t>(b)] = tag;
  }
  void expect_holds(ValueId v, int slot) const {
    const Range where = range_of(v, slot);
    const Tag wanted{v, owner_slot(v, slot)};
    for (std::int64_t b = where.begin; b < where.end; ++b) {
      const Tag& found = blocks_[static_cast<std::size_t>(b)];
      ASSERT_EQ(found, wanted) << graph_.value(v).name << " of slot " << wanted.slot << " is read, but holds "
                               << (found.value >= 0 ? graph_.value(found.value).name : "workspace or nothing")
                               << " of slot " << found.slot;
    }
  }

  void run_step(const Step& step, int slot) {
    const Node& node = graph_.node(step.node);
    for (ValueId v : node.inputs) expect_holds(v, slot);
    const std::vector<InPlace> in_place = in_place_pairs(node);
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const Range out = range_of(node.outputs[o], slot);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const Range in = range_of(node.inputs[i], slot);
        const bool declared = std::any_of(in_place.begin(), in_place.end(), [&](const InPlace& pair) {
          return pair.output == o && node.inputs[pair.input] == node.inputs[i];
        });
        EXPECT_TRUE(!out.overlaps(in) || (declared && out == in))
            << node.name << " output " << o << " on input " << i;
      }
      for (std::size_t other = 0; other < o; ++other) {
        EXPECT_FALSE(out.overlaps(range_of(node.outputs[other], slot))) << node.name << ": outputs overlap";
      }
    }
    if (step.workspace_bytes > 0) {
      const Range scratch = range(Region::temporary, step.workspace_offset, step.workspace_bytes, slot);
      for (ValueId v : node.inputs) EXPECT_FALSE(scratch.overlaps(range_of(v, slot))) << node.name;
      for (ValueId v : node.outputs) EXPECT_FALSE(scratch.overlaps(range_of(v, slot))) << node.name;
      fill(scratch, {kWorkspace, 0});
    }
    for (ValueId v : node.outputs) write(v, slot);
  }

  const Graph& graph_;
  const Plan& plan_;
  std::vector<Tag> blocks_;
};

}  // namespace tessera
