// TimelineBlock: one forward or backward as both timelines draw it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tessera/pipeline/schedule.h"
#include "tessera/pipeline/schedule_timing.h"

namespace tessera {

struct TimelineBlock {
  std::string name;  // "F3", or "F3:1" in chunk 1 of several
  Instruction instruction;
  TimeSpan span;
};

inline std::vector<TimelineBlock> timeline_blocks(const Schedule& schedule, const ScheduleTiming& timing,
                                                  int rank) {
  std::vector<TimelineBlock> blocks;
  const auto& list = schedule.ranks[rank];
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_compute()) continue;
    std::string name =
        fmt::format("{}{}", list[i].kind == Instruction::forward ? 'F' : 'B', list[i].micro_batch);
    if (schedule.num_chunks > 1) name += fmt::format(":{}", list[i].chunk);
    blocks.push_back({std::move(name), list[i], timing.spans[rank][i]});
  }
  return blocks;
}

}  // namespace tessera
