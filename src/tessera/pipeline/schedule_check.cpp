#include "tessera/pipeline/schedule_check.h"

#include "tessera/base/error.h"
#include "tessera/pipeline/channel.h"
#include "tessera/pipeline/rank_check.h"
#include "tessera/pipeline/rehearsal.h"

namespace tessera {

namespace {

void check_shape(const Schedule& schedule) {
  TS_CHECK(schedule.num_stages >= 1 && schedule.num_chunks >= 1 && schedule.num_micro_batches >= 1,
           "pipeline schedule: found {} ranks, {} chunks and {} micro-batches, expected at least one of each",
           schedule.num_stages, schedule.num_chunks, schedule.num_micro_batches);
  const auto num_ranks = static_cast<std::size_t>(schedule.num_stages);
  TS_CHECK(schedule.ranks.size() == num_ranks && schedule.slots_needed.size() == num_ranks,
           "pipeline schedule: found {} instruction lists and {} lists of slots, expected {}",
           schedule.ranks.size(), schedule.slots_needed.size(), num_ranks);
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    TS_CHECK(schedule.slots_needed[rank].size() == static_cast<std::size_t>(schedule.num_chunks),
             "pipeline schedule: rank {} has slots for {} chunks, expected {}", rank,
             schedule.slots_needed[rank].size(), schedule.num_chunks);
  }
}

struct Message {
  int micro_batch = 0;
  int rank = 0;  // where it is sent or received
  int index = 0;
};

struct Queue {
  std::vector<Message> sends;
  std::vector<Message> receives;
};

// By channel, in the order of each rank's list.
std::vector<Queue> sort_messages(const Schedule& schedule) {
  std::vector<Queue> queues(static_cast<std::size_t>(num_channels(schedule)));
  for (int rank = 0; rank < schedule.num_stages; ++rank) {
    const auto& list = schedule.ranks[rank];
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      if (!list[i].is_message()) continue;
      Queue& queue = queues[channel_index(schedule, rank, list[i])];
      (list[i].is_send() ? queue.sends : queue.receives).push_back({list[i].micro_batch, rank, i});
    }
  }
  return queues;
}

// rank_check has counted the messages of every stage: both lists of a channel are equally long.
void check_channels(const Schedule& schedule) {
  const std::vector<Queue> queues = sort_messages(schedule);
  for (int channel = 0; channel < num_channels(schedule); ++channel) {
    const Queue& queue = queues[channel];
    TS_ASSERT(queue.sends.size() == queue.receives.size());
    for (std::size_t i = 0; i < queue.sends.size(); ++i) {
      const Message& sent = queue.sends[i];
      const Message& wanted = queue.receives[i];
      TS_CHECK(sent.micro_batch == wanted.micro_batch,
               "pipeline schedule: {} is message {} of the {}, but {} sends micro-batch {} there",
               instruction_place(schedule, wanted.rank, wanted.index), i,
               channel_text(channel_at(schedule, channel)),
               instruction_place(schedule, sent.rank, sent.index), sent.micro_batch);
    }
  }
}

}  // namespace

ScheduleProof check_schedule(const Schedule& schedule) {
  check_shape(schedule);
  ScheduleProof proof;
  for (int rank = 0; rank < schedule.num_stages; ++rank) {
    proof.peak_in_flight.push_back(check_rank(schedule, rank));
  }
  check_channels(schedule);
  const Rehearsal rehearsal = rehearse(schedule, kUnlimitedBuffers);
  if (!rehearsal.finished) fail("pipeline schedule: deadlock: {}", deadlock_text(schedule, rehearsal));
  return proof;
}

}  // namespace tessera
