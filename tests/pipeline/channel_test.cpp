// That no more messages than channel_capacity are ever on their way, and that so many can be.
#include "tessera/pipeline/channel.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera {
namespace {

// If the receiver of a channel stops before its receive number `taken` and everybody else goes on as far as
// can be.
int on_their_way(const Schedule& schedule, int channel, int taken) {
  const auto num_ranks = static_cast<std::size_t>(schedule.num_stages);
  std::vector<int> sent(static_cast<std::size_t>(num_channels(schedule)), 0), received = sent;
  std::vector<std::size_t> next(num_ranks, 0);
  const auto step = [&](std::size_t rank) {
    if (next[rank] == schedule.ranks[rank].size()) return false;
    const Instruction& instruction = schedule.ranks[rank][next[rank]];
    if (instruction.is_message()) {
      const int index = channel_index(schedule, static_cast<int>(rank), instruction);
      const auto at = static_cast<std::size_t>(index);
      if (instruction.is_receive()) {
        if (sent[at] == received[at] || (index == channel && received[at] == taken)) return false;
        ++received[at];
      } else {
        ++sent[at];
      }
    }
    ++next[rank];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      while (step(rank)) moved = true;
    }
  }
  const auto at = static_cast<std::size_t>(channel);
  return sent[at] - received[at];
}

int most_on_their_way(const Schedule& schedule, int channel) {
  int most = 0;
  for (int taken = 0; taken < schedule.num_micro_batches; ++taken)
    most = std::max(most, on_their_way(schedule, channel, taken));
  return most;
}

TEST(ChannelTest, NoMoreThanItsCapacityIsEverOnItsWay) {
  bool some_are_full = false;
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved}) {
    for (const int stages : {2, 3, 4}) {
      for (const int chunks : {1, 2, 3}) {
        if (chunks > 1 && kind != ScheduleKind::interleaved) continue;
        for (const int micro_batches : {1, 2, 5, 8, 12}) {
          const Schedule schedule = make_schedule(kind, stages, chunks, micro_batches);
          for (int channel = 0; channel < num_channels(schedule); ++channel) {
            const int most = most_on_their_way(schedule, channel);
            EXPECT_LE(most, channel_capacity(schedule, channel))
                << schedule_name(kind) << " of " << stages << " stages, " << chunks << " chunks, "
                << micro_batches << " micro-batches: " << channel_text(channel_at(schedule, channel));
            some_are_full |= most == channel_capacity(schedule, channel) && most > 1;
          }
        }
      }
    }
  }
  EXPECT_TRUE(some_are_full);
}

}  // namespace
}  // namespace tessera
