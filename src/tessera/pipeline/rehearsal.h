// Rehearsal: a schedule run without devices or time, to see whether it reaches its end. Used by the checker,
// with few send buffers as well as with many, and by the timing, for an order in which causes come first.
//
// Whether a rank goes on depends only on how many messages have passed through its channels, and a message
// once sent stays sent. So it does not matter in which order the ranks are stepped: a schedule that gets to
// its end here cannot deadlock under any timing, and one that stops here always stops in the same place.
#pragma once

#include <string>
#include <vector>

#include "tessera/pipeline/schedule.h"

namespace tessera {

// As many as there are messages: a send never waits.
inline constexpr int kUnlimitedBuffers = -1;

struct Rehearsal {
  std::vector<int> order;    // the rank of each step, causes before effects
  std::vector<int> stopped;  // by rank: its next instruction, or its list's size
  bool finished = false;     // every rank reached its end
};

// `send_buffers`: how many sent messages a channel holds until they are received; a send to a full channel
// waits. 0 is a rendezvous: a send returns when its receive runs. Micro-batches are not compared: which
// receive takes which send follows from the channels' order.
Rehearsal rehearse(const Schedule& schedule, int send_buffers);

// "rank 0 waits at instruction 3 (...) for rank 1; rank 1 waits at ... for rank 0": the ranks that wait for
// each other in a rehearsal that did not finish.
std::string deadlock_text(const Schedule& schedule, const Rehearsal& rehearsal);

}  // namespace tessera
