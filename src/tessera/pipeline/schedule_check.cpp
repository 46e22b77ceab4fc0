#include "tessera/pipeline/schedule_check.h"

#include <algorithm>
#include <array>

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
  int channel = 0;
  int micro_batch = 0;
  int rank = 0;  // where it is sent or received
  int index = 0;

  bool same_as(const Message& other) const {
    return channel == other.channel && micro_batch == other.micro_batch;
  }
};

struct Queue {
  std::vector<Message> sends;
  std::vector<Message> receives;
};

// The messages sorted into queues, in the order of each rank's list.
std::vector<Queue> sort_messages(const Schedule& schedule, MessageTag tag) {
  // Between two neighbours go activations one way and gradients the other, so their direction tells them
  // apart; two ranks are neighbours on both sides, and one is its own.
  const bool direction_tells = schedule.num_stages > 2;
  const auto queue_of = [&](int channel_number) {
    if (tag == MessageTag::content_and_chunk) return channel_number;
    const Channel channel = channel_at(schedule, channel_number);
    const bool split = tag == MessageTag::content || direction_tells;
    return 2 * channel.from_rank + (split && channel.content == MessageContent::gradient ? 1 : 0);
  };
  std::vector<Queue> queues(
      static_cast<std::size_t>(std::max(num_channels(schedule), 2 * schedule.num_stages)));
  for (int rank = 0; rank < schedule.num_stages; ++rank) {
    const auto& list = schedule.ranks[rank];
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      if (!list[i].is_message()) continue;
      const int channel = channel_index(schedule, rank, list[i]);
      Queue& queue = queues[queue_of(channel)];
      (list[i].is_send() ? queue.sends : queue.receives).push_back({channel, list[i].micro_batch, rank, i});
    }
  }
  return queues;
}

// rank_check has counted the messages of every stage: both lists of a channel are equally long.
void check_channels(const Schedule& schedule) {
  for (const Queue& queue : sort_messages(schedule, MessageTag::content_and_chunk)) {
    TS_ASSERT(queue.sends.size() == queue.receives.size());
    for (std::size_t i = 0; i < queue.sends.size(); ++i) {
      const Message& sent = queue.sends[i];
      const Message& wanted = queue.receives[i];
      TS_CHECK(sent.same_as(wanted),
               "pipeline schedule: {} is message {} of the {}, but {} sends micro-batch {} there",
               instruction_place(schedule, wanted.rank, wanted.index), i,
               channel_text(channel_at(schedule, wanted.channel)),
               instruction_place(schedule, sent.rank, sent.index), sent.micro_batch);
    }
  }
}

MessageTag least_tag(const Schedule& schedule) {
  for (const MessageTag tag : {MessageTag::none, MessageTag::content}) {
    const std::vector<Queue> queues = sort_messages(schedule, tag);
    const bool in_order = std::ranges::all_of(queues, [](const Queue& queue) {
      return std::ranges::equal(queue.sends, queue.receives, &Message::same_as);
    });
    if (in_order) return tag;
  }
  return MessageTag::content_and_chunk;
}

// More buffers never hurt, so the least number is found by doubling and halving.
int least_send_buffers(const Schedule& schedule) {
  const auto enough = [&](int buffers) { return rehearse(schedule, buffers).finished; };
  if (enough(0)) return 0;
  int too_few = 0, many = 1;
  while (!enough(many)) {
    too_few = many;
    many *= 2;
  }
  while (many - too_few > 1) {
    const int middle = too_few + (many - too_few) / 2;
    (enough(middle) ? many : too_few) = middle;
  }
  return many;
}

}  // namespace

std::string_view message_tag_name(MessageTag tag) {
  constexpr std::array<std::string_view, 3> kNames{"none", "content", "content and chunk"};
  return kNames[static_cast<std::size_t>(tag)];
}

ScheduleProof check_schedule(const Schedule& schedule) {
  check_shape(schedule);
  ScheduleProof proof;
  for (int rank = 0; rank < schedule.num_stages; ++rank) {
    proof.peak_in_flight.push_back(check_rank(schedule, rank));
  }
  check_channels(schedule);
  const Rehearsal rehearsal = rehearse(schedule, kUnlimitedBuffers);
  if (!rehearsal.finished) fail("pipeline schedule: deadlock: {}", deadlock_text(schedule, rehearsal));
  proof.tag_needed = least_tag(schedule);
  proof.send_buffers_needed = least_send_buffers(schedule);
  return proof;
}

}  // namespace tessera
