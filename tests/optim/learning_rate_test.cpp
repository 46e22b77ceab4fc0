#include "tessera/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

TEST(LearningRate, WarmUpReachesThePeakAtItsLastStep) {
  for (Decay decay : {Decay::constant, Decay::linear, Decay::cosine}) {
    const LearningRateSchedule s{
        .peak = 8.0, .floor = 1.0, .warmup_steps = 4, .decay_steps = 12, .decay = decay};
    EXPECT_EQ(learning_rate(s, 0), 2.0);
    EXPECT_EQ(learning_rate(s, 1), 4.0);
    EXPECT_EQ(learning_rate(s, 2), 6.0);
    EXPECT_EQ(learning_rate(s, 3), 8.0);
    EXPECT_EQ(learning_rate(s, 4), 8.0);  // where the decay begins
  }
}

TEST(LearningRate, ConstantStays) {
  const LearningRateSchedule s{.peak = 8.0, .floor = 1.0, .decay_steps = 12, .decay = Decay::constant};
  EXPECT_EQ(learning_rate(s, 0), 8.0);
  EXPECT_EQ(learning_rate(s, 12), 8.0);
  EXPECT_EQ(learning_rate(s, 1000000), 8.0);
}

TEST(LearningRate, LinearFallsToTheFloorAndStaysThere) {
  const LearningRateSchedule s{
      .peak = 8.0, .floor = 2.0, .warmup_steps = 4, .decay_steps = 12, .decay = Decay::linear};
  EXPECT_EQ(learning_rate(s, 6), 6.5);  // a quarter of the way from 8 to 2
  EXPECT_EQ(learning_rate(s, 8), 5.0);
  EXPECT_EQ(learning_rate(s, 10), 3.5);
  EXPECT_EQ(learning_rate(s, 12), 2.0);
  EXPECT_EQ(learning_rate(s, 13), 2.0);
}

TEST(LearningRate, CosineFallsToTheFloorAndStaysThere) {
  const LearningRateSchedule s{
      .peak = 8.0, .floor = 2.0, .warmup_steps = 4, .decay_steps = 16, .decay = Decay::cosine};
  EXPECT_DOUBLE_EQ(learning_rate(s, 8), 2.0 + 6.0 * 0.75);  // a third of the way: (1 + cos 60) / 2
  EXPECT_DOUBLE_EQ(learning_rate(s, 7), 2.0 + 6.0 * (0.5 + 0.25 * std::sqrt(2.0)));  // a quarter: cos 45
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 5.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 12), 2.0 + 6.0 * 0.25);
  EXPECT_EQ(learning_rate(s, 16), 2.0);
  EXPECT_EQ(learning_rate(s, 99), 2.0);
}

TEST(LearningRate, WithoutAFloorEndsAtZero) {
  for (Decay decay : {Decay::linear, Decay::cosine}) {
    const LearningRateSchedule s{.peak = 3e-4, .decay_steps = 10, .decay = decay};
    EXPECT_EQ(learning_rate(s, 0), 3e-4);
    EXPECT_EQ(learning_rate(s, 10), 0.0);
  }
}

TEST(LearningRate, DecayNoLongerThanTheWarmUp) {
  const LearningRateSchedule s{
      .peak = 8.0, .floor = 2.0, .warmup_steps = 4, .decay_steps = 4, .decay = Decay::linear};
  EXPECT_EQ(learning_rate(s, 3), 8.0);
  EXPECT_EQ(learning_rate(s, 4), 8.0);
  EXPECT_EQ(learning_rate(s, 5), 2.0);
}

}  // namespace
}  // namespace tessera
