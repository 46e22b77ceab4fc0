#include "tessera/graph/dump.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "tessera/plan/plan.h"

namespace tessera {
namespace {

std::string_view region_name(Region region) {
  switch (region) {
    case Region::none:
      return "none";
    case Region::persistent:
      return "persistent";
    case Region::kept:
      return "kept";
    case Region::temporary:
      return "temporary";
    case Region::external:
      return "external";
  }
  return "?";
}

// Under the backward program's step after which they may begin.
std::string early_text(const Graph& graph, const Plan& plan, const Chunk& chunk, std::size_t step) {
  std::string text;
  for (const EarlyCollective& early : chunk.early) {
    if (static_cast<std::size_t>(early.after) != step) continue;
    const Step& update = plan.program(Phase::update)[static_cast<std::size_t>(early.step)];
    text += fmt::format("  last micro-batch: begins    {}\n", graph.node(update.node).name);
  }
  return text;
}

}  // namespace

std::string dump_text(const Graph& graph, const Plan& plan) {
  std::string text = fmt::format("arena {} bytes: persistent {}, kept {}, temporary {}\n", plan.arena_bytes(),
                                 plan.persistent_bytes, plan.kept_bytes(), plan.temporary_bytes);
  for (int i = 0; i < kNumPhases * plan.num_chunks(); ++i) {
    const auto phase = static_cast<Phase>(i % kNumPhases);
    const int chunk = i / kNumPhases;
    const Chunk& slots = plan.chunks[static_cast<std::size_t>(chunk)];
    text += fmt::format("program {} of chunk {}: {} steps, {} slots of {} bytes\n", phase_name(phase), chunk,
                        plan.program(phase, chunk).size(), slots.num_slots, slots.kept_bytes);
    const std::vector<Step>& steps = plan.program(phase, chunk);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Step& step = steps[s];
      const Node& node = graph.node(step.node);
      text += fmt::format("  {:<26} {}", op_name(node.op), node.name);
      for (ValueId output : node.outputs) {
        const Location& at = plan.locations[static_cast<std::size_t>(output)];
        text += fmt::format(" {}@{}+{}", graph.type(output).text(), region_name(at.region), at.offset);
      }
      if (step.workspace_bytes > 0) {
        text += fmt::format(" workspace {}@{}", step.workspace_bytes, step.workspace_offset);
      }
      text += "\n";
      if (phase == Phase::backward) text += early_text(graph, plan, slots, s);
    }
  }
  return text;
}

std::uint64_t plan_hash(const Graph& graph, const Plan& plan) {
  const std::string text = dump_text(graph) + dump_text(graph, plan);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace tessera
