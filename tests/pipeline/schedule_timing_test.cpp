// Times against the known formulas for equal stages, and against plain relaxation for unequal ones.
#include "tessera/pipeline/schedule_timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "pipeline/error_of.h"

namespace tessera {
namespace {

// Small integers: sums and comparisons are exact.
constexpr std::pair<double, double> kCosts[] = {{1, 1}, {1, 2}, {2, 1}, {3, 7}};

TEST(ScheduleTiming, GPipeAndOneForwardOneBackwardHaveTheKnownBubble) {
  for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 20; ++m) {
        for (const auto& [f, b] : kCosts) {
          const Schedule schedule = make_schedule(kind, p, 1, m);
          const ScheduleTiming timing = time_schedule(schedule, uniform_cost(schedule, f, b));
          EXPECT_EQ(timing.makespan, (m + p - 1) * (f + b)) << schedule_name(kind) << " " << p << " " << m;
          EXPECT_DOUBLE_EQ(1 - timing.bubble_fraction(), static_cast<double>(m) / (m + p - 1));
        }
      }
    }
  }
}

TEST(ScheduleTiming, InterleavingDividesTheBubbleByTheChunks) {
  for (int p = 1; p <= 8; ++p) {
    for (int v = 2; v <= 4; ++v) {
      for (int m = 1; m <= 3 * p + 2; ++m) {
        for (const auto& [f, b] : kCosts) {
          const Schedule schedule = make_schedule(ScheduleKind::interleaved, p, v, m);
          const ScheduleTiming timing = time_schedule(schedule, uniform_cost(schedule, f, b));
          const int programs = m >= p ? m * v + p - 1 : p * v + m - 1;
          EXPECT_EQ(timing.makespan, programs * (f + b)) << p << " " << v << " " << m;
          EXPECT_DOUBLE_EQ(1 - timing.bubble_fraction(), static_cast<double>(m * v) / programs);
        }
      }
    }
  }
}

// The figure the literature gives: waiting over computing time is (p - 1) / (v m).
TEST(ScheduleTiming, WaitingOverComputingTime) {
  const Schedule schedule = make_schedule(ScheduleKind::interleaved, 8, 4, 32);
  const ScheduleTiming timing = time_schedule(schedule, uniform_cost(schedule, 1, 2));
  EXPECT_DOUBLE_EQ((timing.makespan - timing.busy[0]) / timing.busy[0], 7.0 / (4 * 32));
}

// The ends of all programs by relaxation: each begins when the program before it on its rank has ended and
// when its input has come. Knows nothing of messages, channels or rehearsals.
std::map<std::tuple<int, int, int>, double> relaxed_ends(const Schedule& schedule, const ScheduleCost& cost) {
  std::map<std::tuple<int, int, int>, double> ends;  // (kind, stage, micro-batch)
  for (bool changed = true; changed;) {
    changed = false;
    for (int rank = 0; rank < schedule.num_stages; ++rank) {
      double now = 0;
      for (const Instruction& i : schedule.ranks[rank]) {
        if (!i.is_compute()) continue;
        const int stage = schedule.global_stage(rank, i.chunk);
        const bool forward = i.kind == Instruction::forward;
        const int from = forward ? stage - 1 : stage + 1;
        if (from >= 0 && from < schedule.num_global_stages())
          now = std::max(now, ends[{i.kind, from, i.micro_batch}] + cost.transfer);
        now += forward ? cost.forward[stage] : cost.backward[stage];
        double& end = ends[{i.kind, stage, i.micro_batch}];
        changed |= end != now;
        end = now;
      }
    }
  }
  return ends;
}

TEST(ScheduleTiming, AgreesWithRelaxationForUnequalStages) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    const auto kind = static_cast<ScheduleKind>(random() % 3);
    const int chunks = kind == ScheduleKind::interleaved ? 1 + static_cast<int>(random() % 3) : 1;
    const Schedule schedule =
        make_schedule(kind, 1 + static_cast<int>(random() % 5), chunks, 1 + static_cast<int>(random() % 9));
    ScheduleCost cost = uniform_cost(schedule, 0, 0);
    for (double& c : cost.forward) c = static_cast<double>(random() % 10);
    for (double& c : cost.backward) c = static_cast<double>(random() % 20);
    cost.transfer = static_cast<double>(random() % 3);
    const ScheduleTiming timing = time_schedule(schedule, cost);
    auto ends = relaxed_ends(schedule, cost);
    double makespan = 0;
    for (int rank = 0; rank < schedule.num_stages; ++rank) {
      for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
        const Instruction& instruction = schedule.ranks[rank][i];
        if (!instruction.is_compute()) continue;
        const int stage = schedule.global_stage(rank, instruction.chunk);
        const double expected = ends[{instruction.kind, stage, instruction.micro_batch}];
        EXPECT_EQ(timing.spans[rank][i].end, expected);
        makespan = std::max(makespan, expected);
      }
    }
    EXPECT_EQ(timing.makespan, makespan);
  }
}

TEST(ScheduleTiming, TransfersDelayTheReader) {
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 1, 1);
  ScheduleCost cost = uniform_cost(schedule, 1, 2);
  cost.transfer = 0.5;
  EXPECT_EQ(time_schedule(schedule, cost).makespan, 1 + 0.5 + 1 + 2 + 0.5 + 2);
}

TEST(ScheduleTiming, RefusesCostsThatDoNotFit) {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 1);
  ScheduleCost cost = uniform_cost(schedule, 1, 2);
  cost.backward.pop_back();
  EXPECT_EQ(error_of([&] { time_schedule(schedule, cost); }),
            "pipeline costs: found 2 forwards and 1 backwards, expected one of each for 2 stages");
  cost.backward.push_back(-1);
  EXPECT_EQ(error_of([&] { time_schedule(schedule, cost); }),
            "pipeline costs: expected finite numbers from 0 on");
}

TEST(ScheduleTiming, NothingToDoTakesNoTime) {
  const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 1);
  const ScheduleTiming timing = time_schedule(schedule, uniform_cost(schedule, 0, 0));
  EXPECT_EQ(timing.makespan, 0);
  EXPECT_EQ(timing.bubble_fraction(), 0);
}

}  // namespace
}  // namespace tessera
