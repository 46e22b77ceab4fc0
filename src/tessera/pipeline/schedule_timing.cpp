#include "tessera/pipeline/schedule_timing.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/pipeline/channel.h"
#include "tessera/pipeline/rehearsal.h"

namespace tessera {

namespace {

// The messages under way on one channel, as the times at which they can be read.
struct Arrivals {
  std::vector<double> times;
  std::size_t num_read = 0;
};

void check_cost(const Schedule& schedule, const ScheduleCost& cost) {
  const auto num_stages = static_cast<std::size_t>(schedule.num_global_stages());
  TS_CHECK(cost.forward.size() == num_stages && cost.backward.size() == num_stages,
           "pipeline costs: found {} forwards and {} backwards, expected one of each for {} stages",
           cost.forward.size(), cost.backward.size(), num_stages);
  const auto is_cost = [](double c) { return std::isfinite(c) && c >= 0; };
  TS_CHECK(std::ranges::all_of(cost.forward, is_cost) && std::ranges::all_of(cost.backward, is_cost) &&
               is_cost(cost.transfer),
           "pipeline costs: expected finite numbers from 0 on");
}

}  // namespace

ScheduleCost uniform_cost(const Schedule& schedule, double forward, double backward) {
  const auto num_stages = static_cast<std::size_t>(schedule.num_global_stages());
  return {.forward = std::vector<double>(num_stages, forward),
          .backward = std::vector<double>(num_stages, backward)};
}

double ScheduleTiming::bubble_fraction() const {
  if (makespan <= 0) return 0;
  double total = 0;
  for (const double b : busy) total += b;
  return 1 - total / (static_cast<double>(busy.size()) * makespan);
}

ScheduleTiming time_schedule(const Schedule& schedule, const ScheduleCost& cost) {
  check_cost(schedule, cost);
  const Rehearsal rehearsal = rehearse(schedule, kUnlimitedBuffers);
  TS_ASSERT(rehearsal.finished);
  ScheduleTiming timing;
  timing.spans.resize(schedule.ranks.size());
  for (std::size_t r = 0; r < timing.spans.size(); ++r) timing.spans[r].reserve(schedule.ranks[r].size());
  timing.busy.resize(schedule.ranks.size());
  std::vector<double> now(schedule.ranks.size(), 0.0);
  std::vector<Arrivals> channels(static_cast<std::size_t>(num_channels(schedule)));
  for (const int rank : rehearsal.order) {
    const Instruction& instruction = schedule.ranks[rank][timing.spans[rank].size()];
    const double begin = now[rank];
    double end = begin;
    if (instruction.is_compute()) {
      const auto& costs = instruction.kind == Instruction::forward ? cost.forward : cost.backward;
      const double duration = costs[schedule.global_stage(rank, instruction.chunk)];
      end += duration;
      timing.busy[rank] += duration;
      timing.makespan = std::max(timing.makespan, end);
    } else if (instruction.is_send()) {
      channels[channel_index(schedule, rank, instruction)].times.push_back(begin + cost.transfer);
    } else if (instruction.is_receive()) {
      Arrivals& arrivals = channels[channel_index(schedule, rank, instruction)];
      end = std::max(begin, arrivals.times[arrivals.num_read++]);
    }
    timing.spans[rank].push_back({begin, end});
    now[rank] = end;
  }
  return timing;
}

}  // namespace tessera
