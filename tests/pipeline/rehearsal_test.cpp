// The rehearsal against a naive one that tries every rank again and again, for any number of buffers.
#include "tessera/pipeline/rehearsal.h"

#include <gtest/gtest.h>

#include "tessera/pipeline/channel.h"

namespace tessera {
namespace {

class NaiveRun {
 public:
  NaiveRun(const Schedule& schedule, int send_buffers)
      : schedule_(schedule), send_buffers_(send_buffers), at_(schedule.ranks.size(), 0) {
    held_.resize(static_cast<std::size_t>(num_channels(schedule)), 0);
  }

  std::vector<int> stopped() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < schedule_.num_stages; ++rank) {
        if (step(rank)) moved = true;
      }
    }
    return at_;
  }

 private:
  const Instruction* next(int rank) const {
    const auto& list = schedule_.ranks[rank];
    return at_[rank] < static_cast<int>(list.size()) ? &list[at_[rank]] : nullptr;
  }

  bool step(int rank) {
    const Instruction* instruction = next(rank);
    if (instruction == nullptr) return false;
    if (instruction->is_message()) {
      const int channel = channel_index(schedule_, rank, *instruction);
      const int peer = peer_rank(schedule_, rank, *instruction);
      if (send_buffers_ == 0) {  // a send moves both ranks, a receive waits to be moved
        const Instruction* other = next(peer);
        if (!instruction->is_send() || other == nullptr || !other->is_receive()) return false;
        if (channel_index(schedule_, peer, *other) != channel) return false;
        ++at_[peer];
      } else if (instruction->is_send()) {
        if (send_buffers_ != kUnlimitedBuffers && held_[channel] >= send_buffers_) return false;
        ++held_[channel];
      } else {
        if (held_[channel] == 0) return false;
        --held_[channel];
      }
    }
    ++at_[rank];
    return true;
  }

  const Schedule& schedule_;
  int send_buffers_;
  std::vector<int> at_;
  std::vector<int> held_;
};

TEST(Rehearsal, StopsWhereTheNaiveOneStops) {
  for (int pp = 1; pp <= 5; ++pp) {
    for (int chunks = 1; chunks <= 3; ++chunks) {
      for (int m = 1; m <= 2 * pp + 2; ++m) {
        const auto kind = chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
        const Schedule schedule = make_schedule(kind, pp, chunks, m);
        for (const int buffers : {kUnlimitedBuffers, 0, 1, 2, 3}) {
          const Rehearsal rehearsal = rehearse(schedule, buffers);
          const std::vector<int> expected = NaiveRun(schedule, buffers).stopped();
          EXPECT_EQ(rehearsal.stopped, expected) << pp << " " << chunks << " " << m << " " << buffers;
          bool all = true;
          for (std::size_t r = 0; r < expected.size(); ++r)
            all &= expected[r] == static_cast<int>(schedule.ranks[r].size());
          EXPECT_EQ(rehearsal.finished, all);
        }
      }
    }
  }
}

TEST(Rehearsal, NamesTheRanksThatWaitForEachOther) {
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 1, 4);
  EXPECT_EQ(deadlock_text(schedule, rehearse(schedule, 0)),
            "rank 0 waits at instruction 3 (send_activation chunk 0 micro-batch 1 slot 1) for rank 1; rank 1 "
            "waits at "
            "instruction 3 (send_gradient chunk 0 micro-batch 0 slot 0) for rank 0");
}

TEST(Channels, AreTheSameAtBothEnds) {
  const Schedule schedule = make_schedule(ScheduleKind::interleaved, 3, 2, 3);
  const Instruction sent{Instruction::send_activation, 0, 0, 0};
  const Instruction received{Instruction::receive_activation, 1, 0, 0};
  const int channel = channel_index(schedule, 2, sent);
  EXPECT_EQ(channel_index(schedule, 0, received), channel);
  EXPECT_EQ(channel_at(schedule, channel), (Channel{MessageContent::activation, 2, 0, 0}));
  EXPECT_EQ(channel_text(channel_at(schedule, channel)), "activations of rank 2 chunk 0 to rank 0");
  const int back = channel_index(schedule, 0, {Instruction::send_gradient, 1, 0, 0});
  EXPECT_EQ(channel_at(schedule, back), (Channel{MessageContent::gradient, 0, 2, 1}));
  EXPECT_EQ(channel_index(schedule, 2, {Instruction::receive_gradient, 0, 0, 0}), back);
  EXPECT_EQ(num_channels(schedule), 10);
}

}  // namespace
}  // namespace tessera
