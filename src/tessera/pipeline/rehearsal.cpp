#include "tessera/pipeline/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/pipeline/channel.h"

namespace tessera {

namespace {

constexpr int kNotWaiting = -1;

// Steps every rank as far as it goes.
class Runner {
 public:
  Runner(const Schedule& schedule, int send_buffers)
      : schedule_(schedule),
        send_buffers_(send_buffers),
        at_(schedule.ranks.size(), 0),
        waits_for_(schedule.ranks.size(), kNotWaiting),
        held_(static_cast<std::size_t>(num_channels(schedule)), 0) {
    for (int rank = schedule.num_stages - 1; rank >= 0; --rank) ready_.push_back(rank);
    std::size_t num_instructions = 0;
    for (const auto& list : schedule.ranks) num_instructions += list.size();
    order_.reserve(num_instructions);
  }

  Rehearsal run() {
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      while (at_[rank] < size(rank) && step(rank)) {
      }
    }
    bool finished = true;
    for (int rank = 0; rank < schedule_.num_stages; ++rank) finished &= at_[rank] == size(rank);
    return {std::move(order_), std::move(at_), finished};
  }

 private:
  int size(int rank) const { return static_cast<int>(schedule_.ranks[rank].size()); }

  bool step(int rank) {
    const Instruction& instruction = schedule_.ranks[rank][at_[rank]];
    if (!instruction.is_message()) {
      advance(rank);
      return true;
    }
    const int channel = channel_index(schedule_, rank, instruction);
    const int peer = peer_rank(schedule_, rank, instruction);
    return instruction.is_send() ? send(rank, channel, peer) : receive(rank, channel, peer);
  }

  bool send(int rank, int channel, int peer) {
    if (send_buffers_ == 0) {
      if (waits_for_[peer] != channel) return wait(rank, channel);
      advance(rank);
      advance(peer);
    } else {
      if (held_[channel] == send_buffers_) return wait(rank, channel);
      ++held_[channel];
      advance(rank);
    }
    wake(peer, channel);
    return true;
  }

  bool receive(int rank, int channel, int peer) {
    if (send_buffers_ == 0) {
      wake(peer, channel);  // its send moves both
      return wait(rank, channel);
    }
    if (held_[channel] == 0) return wait(rank, channel);
    --held_[channel];
    advance(rank);
    wake(peer, channel);
    return true;
  }

  void advance(int rank) {
    ++at_[rank];
    order_.push_back(rank);
  }
  bool wait(int rank, int channel) {
    waits_for_[rank] = channel;
    return false;
  }
  // A rank that waits leaves `ready_`; it comes back when something passed its channel.
  void wake(int rank, int channel) {
    if (waits_for_[rank] != channel) return;
    waits_for_[rank] = kNotWaiting;
    ready_.push_back(rank);
  }

  const Schedule& schedule_;
  int send_buffers_;
  std::vector<int> at_;         // by rank: its next instruction
  std::vector<int> waits_for_;  // by rank: a channel
  std::vector<int> held_;       // by channel: messages sent and not yet received
  std::vector<int> ready_;
  std::vector<int> order_;
};

}  // namespace

Rehearsal rehearse(const Schedule& schedule, int send_buffers) {
  return Runner(schedule, send_buffers).run();
}

std::string deadlock_text(const Schedule& schedule, const Rehearsal& rehearsal) {
  TS_ASSERT(!rehearsal.finished);
  int rank = 0;
  while (rehearsal.stopped[rank] == static_cast<int>(schedule.ranks[rank].size())) ++rank;
  // Each stopped rank waits for one other. After as many steps as there are ranks we are on the cycle, or at
  // a rank that has ended and will never answer.
  const auto next = [&](int from) {
    const auto& list = schedule.ranks[from];
    if (rehearsal.stopped[from] == static_cast<int>(list.size())) return from;
    return peer_rank(schedule, from, list[rehearsal.stopped[from]]);
  };
  for (int i = 0; i < schedule.num_stages; ++i) rank = next(rank);
  std::string text;
  const int first = rank;
  do {
    const auto& list = schedule.ranks[rank];
    const int at = rehearsal.stopped[rank];
    if (at == static_cast<int>(list.size())) return text + fmt::format("rank {} has ended", rank);
    text += fmt::format("{}rank {} waits at instruction {} ({}) for rank {}", text.empty() ? "" : "; ", rank,
                        at, instruction_text(list[at]), next(rank));
    rank = next(rank);
  } while (rank != first);
  return text;
}

}  // namespace tessera
