#include "tessera/train/message_room.h"

#include <map>
#include <utility>

#include "tessera/pipeline/channel.h"

namespace tessera {

std::vector<MessageRoom> message_rooms(const Schedule& schedule, int pp_rank,
                                       std::span<const StageMessages> messages, const Graph& graph) {
  std::map<std::pair<int, std::int64_t>, int> counts;  // by receiver and bytes
  const auto count = [&](const Instruction& message, const std::vector<ValueId>& values) {
    for (ValueId v : values) {
      counts[{peer_rank(schedule, pp_rank, message), graph.type(v).num_bytes()}] +=
          channel_capacity(schedule, channel_index(schedule, pp_rank, message));
    }
  };
  for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
    const StageMessages& sent = messages[static_cast<std::size_t>(chunk)];
    count({.kind = Instruction::send_activation, .chunk = chunk}, sent.send_activation);
    count({.kind = Instruction::send_gradient, .chunk = chunk}, sent.send_gradient);
  }
  std::vector<MessageRoom> rooms;
  for (const auto& [to_and_bytes, most] : counts)
    rooms.push_back({to_and_bytes.first, to_and_bytes.second, most});
  return rooms;
}

}  // namespace tessera
