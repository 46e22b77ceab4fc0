// Message room: what the messages that a pipeline stage sends take while they are on their way, beside the
// stage's arena. Reserved by the StageRunner, printed by `tessera plan`.
#pragma once

#include <span>
#include <vector>

#include "tessera/partition/stages.h"
#include "tessera/pipeline/schedule.h"

namespace tessera {

// For `count` messages of `bytes` each to rank `to` of the pipeline.
struct MessageRoom {
  int to = 0;
  std::int64_t bytes = 0;
  int count = 0;
};

// As many as the schedule can have on their way, for each receiver and size. `messages` of each chunk of rank
// `pp_rank`, whose graph it is.
std::vector<MessageRoom> message_rooms(const Schedule& schedule, int pp_rank,
                                       std::span<const StageMessages> messages, const Graph& graph);

}  // namespace tessera
