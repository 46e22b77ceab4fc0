// Channel: the queue a pipeline message goes through. There is one per pair of neighbouring global stages and
// content, that is per (from rank, to rank, tag), the tag being the content and the sender's chunk. A channel
// is first in, first out: its n-th receive takes its n-th send. Used by the checker and by whoever carries
// the messages.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/pipeline/schedule.h"

namespace tessera {

enum class MessageContent : std::uint8_t { activation, gradient };

struct Channel {
  MessageContent content = MessageContent::activation;
  int from_rank = 0;
  int to_rank = 0;
  int from_chunk = 0;  // the receiver's differs where the message passes between the last rank and rank 0

  bool operator==(const Channel&) const = default;
};

inline int num_channels(const Schedule& schedule) {
  return 2 * (schedule.num_global_stages() - 1);
}

// 0 .. num_channels - 1, the same at both ends. The message must not leave the pipeline: no activation to the
// first global stage or from the last, no gradient to the last or from the first.
int channel_index(const Schedule& schedule, int rank, const Instruction& message);

Channel channel_at(const Schedule& schedule, int index);

// The most messages that can be on their way, sent and not yet received: each is of a micro-batch that holds
// a slot of the earlier one of the two stages.
int channel_capacity(const Schedule& schedule, int index);

std::string channel_text(const Channel& channel);  // "activations of rank 3 chunk 0 to rank 0"

}  // namespace tessera
