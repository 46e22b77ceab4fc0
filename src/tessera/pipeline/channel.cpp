#include "tessera/pipeline/channel.h"

#include <fmt/format.h>

#include "tessera/base/error.h"

namespace tessera {

// Activations over the boundary between global stages b and b + 1 have index b; gradients follow after all
// boundaries.
int channel_index(const Schedule& schedule, int rank, const Instruction& message) {
  TS_ASSERT(message.is_message());
  const int stage = schedule.global_stage(rank, message.chunk);
  const int num_boundaries = schedule.num_global_stages() - 1;
  const bool boundary_after =
      message.kind == Instruction::send_activation || message.kind == Instruction::receive_gradient;
  const int boundary = boundary_after ? stage : stage - 1;
  TS_ASSERT(boundary >= 0 && boundary < num_boundaries);
  const bool activation =
      message.kind == Instruction::send_activation || message.kind == Instruction::receive_activation;
  return activation ? boundary : num_boundaries + boundary;
}

Channel channel_at(const Schedule& schedule, int index) {
  const int num_boundaries = schedule.num_global_stages() - 1;
  TS_ASSERT(index >= 0 && index < 2 * num_boundaries);
  const bool gradient = index >= num_boundaries;
  const int before = gradient ? index - num_boundaries : index;
  const int from = gradient ? before + 1 : before;
  const int to = gradient ? before : before + 1;
  return {.content = gradient ? MessageContent::gradient : MessageContent::activation,
          .from_rank = from % schedule.num_stages,
          .to_rank = to % schedule.num_stages,
          .from_chunk = from / schedule.num_stages};
}

int channel_capacity(const Schedule& schedule, int index) {
  const int earlier = index % (schedule.num_global_stages() - 1);
  return schedule.slots_needed[static_cast<std::size_t>(earlier % schedule.num_stages)]
                              [static_cast<std::size_t>(earlier / schedule.num_stages)];
}

std::string channel_text(const Channel& channel) {
  return fmt::format("{} of rank {} chunk {} to rank {}",
                     channel.content == MessageContent::gradient ? "gradients" : "activations",
                     channel.from_rank, channel.from_chunk, channel.to_rank);
}

}  // namespace tessera
