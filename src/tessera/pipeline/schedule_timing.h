// ScheduleTiming: when each instruction of a schedule runs, given what a forward and a backward of each stage
// cost, and how much of the time the ranks wait. Made by time_schedule(); read by the timelines and by
// `tessera plan`, which prints the bubble by it.
#pragma once

#include <vector>

#include "tessera/pipeline/schedule.h"

namespace tessera {

// In seconds, or in any one unit.
struct ScheduleCost {
  std::vector<double> forward;   // by global stage
  std::vector<double> backward;  // by global stage
  double transfer = 0;  // from the start of a send until the message can be read; ranks do not wait for it
};
// Every forward costs `forward` and every backward `backward`, whatever the stage.
ScheduleCost uniform_cost(const Schedule& schedule, double forward, double backward);

struct TimeSpan {
  double begin = 0;
  double end = 0;
};

struct ScheduleTiming {
  // [rank][instruction]. A receive spans the wait for its message; sends and the update take no time: the
  // update belongs to the step, but not to the pipeline.
  std::vector<std::vector<TimeSpan>> spans;
  std::vector<double> busy;  // by rank: time in forwards and backwards
  double makespan = 0;       // from the first forward's begin to the last backward's end

  // The part of the ranks' time in which they compute nothing: 1 - busy / (ranks * makespan).
  //
  // With the same costs f, b at every stage, no transfer time, p ranks, m micro-batches and v chunks:
  //   gpipe, 1f1b   makespan (m + p - 1) (f + b)                    bubble (p - 1) / (m + p - 1)
  //   interleaved   makespan (m v + p - 1) (f + b) for m >= p       bubble (p - 1) / (m v + p - 1)
  //                 makespan (p v + m - 1) (f + b) for m <= p       bubble 1 - m v / (p v + m - 1)
  // The literature often gives the waiting time over the computing time instead: (p - 1) / (m v).
  double bubble_fraction() const;
};

// The schedule must have passed check_schedule(). Costs that do not fit its stages are an Error.
ScheduleTiming time_schedule(const Schedule& schedule, const ScheduleCost& cost);

}  // namespace tessera
