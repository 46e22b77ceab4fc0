// check_schedule: the proof that a schedule can be run. Made for every plan; the trainer, `tessera plan` and
// memory planning rely on it.
//
// Proved, or refused with an Error that names the rank and the instruction:
//   - each global stage runs each micro-batch's forward and backward once; update is the last instruction
//   - a forward has received its activation, a backward its forward's results and its gradient, and each
//     result is sent once, before another program of the rank runs
//   - the backwards of a chunk run in the order 0, 1, 2, ...: gradients add up to the same bits in every
//     schedule
//   - no slot is taken while another micro-batch holds it, and no slot is outside slots_needed
//   - on every channel (channel.h) the n-th receive expects the micro-batch of the n-th send
//   - the ranks reach their ends under any timing: no deadlock with buffered sends
#pragma once

#include <vector>

#include "tessera/pipeline/schedule.h"

namespace tessera {

struct ScheduleProof {
  // By rank: the most micro-batches, over all its chunks, whose activations it holds at once.
  std::vector<int> peak_in_flight;
};

ScheduleProof check_schedule(const Schedule& schedule);

}  // namespace tessera
