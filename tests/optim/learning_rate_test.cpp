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

// transformers' get_linear_schedule_with_warmup as BERT's recipe has it: rate t / w, then (n - t) / (n - w).
// The log of that recipe prints the rate of the next step: 1.56e-05 after step 78.
TEST(LearningRate, LinearAsTransformers) {
  const LearningRateSchedule s{.peak = 4e-4,
                               .warmup_steps = 2000,
                               .decay_steps = 28125,
                               .decay = Decay::linear,
                               .warmup = Warmup::from_zero};
  EXPECT_EQ(learning_rate(s, 0), 0.0);
  EXPECT_NEAR(learning_rate(s, 78), 1.56e-05, 1e-18);
  EXPECT_NEAR(learning_rate(s, 1999), 3.998e-4, 1e-18);
  EXPECT_EQ(learning_rate(s, 2000), 4e-4);
  EXPECT_NEAR(learning_rate(s, 2001), 4e-4 * 26124 / 26125, 1e-18);
  EXPECT_NEAR(learning_rate(s, 15000), 4e-4 * 13125 / 26125, 1e-18);
  EXPECT_NEAR(learning_rate(s, 28124), 4e-4 / 26125, 1e-18);
  EXPECT_EQ(learning_rate(s, 28125), 0.0);
}

// NeMo's CosineAnnealing with a constant phase, as GPT-3's recipes have it: rate t / w; then 219250 steps,
// which are 300000 less 750 of warm-up and 80000 constant ones, of min + (peak - min) (1 + cos(pi k /
// 219250)) / 2; then min. The figures are that formula's, by hand.
TEST(LearningRate, CosineWithAConstantPhaseAsNemo) {
  const LearningRateSchedule s{.peak = 1.5e-4,
                               .floor = 1e-5,
                               .warmup_steps = 750,
                               .decay_steps = 220000,
                               .decay = Decay::cosine,
                               .warmup = Warmup::from_zero};
  EXPECT_EQ(learning_rate(s, 0), 0.0);
  EXPECT_NEAR(learning_rate(s, 1), 2e-7, 1e-19);
  EXPECT_NEAR(learning_rate(s, 375), 7.5e-5, 1e-18);
  EXPECT_EQ(learning_rate(s, 750), 1.5e-4);
  EXPECT_NEAR(learning_rate(s, 750 + 109625), 8e-5, 1e-18);  // halfway
  // A fifth of the way, cos 36 degrees = (1 + sqrt 5) / 4.
  EXPECT_NEAR(learning_rate(s, 750 + 43850), 1e-5 + 1.4e-4 * (5 + std::sqrt(5.0)) / 8, 1e-18);
  EXPECT_GT(learning_rate(s, 219999), 1e-5);
  EXPECT_EQ(learning_rate(s, 220000), 1e-5);
  EXPECT_EQ(learning_rate(s, 299999), 1e-5);
}

// The same without a constant phase, as Llama-2 13B and 70B have it: warm-up by (t + 1) / (w + 1).
TEST(LearningRate, CosineWithoutAConstantPhaseAsNemo) {
  const LearningRateSchedule s{.peak = 1.5e-4,
                               .floor = 1e-5,
                               .warmup_steps = 2000,
                               .decay_steps = 30000,
                               .decay = Decay::cosine,
                               .warmup = Warmup::between};
  EXPECT_NEAR(learning_rate(s, 0), 1.5e-4 / 2001, 1e-19);
  EXPECT_NEAR(learning_rate(s, 1000), 1.5e-4 * 1001 / 2001, 1e-18);
  EXPECT_NEAR(learning_rate(s, 1999), 1.5e-4 * 2000 / 2001, 1e-18);
  EXPECT_EQ(learning_rate(s, 2000), 1.5e-4);
  EXPECT_NEAR(learning_rate(s, 2000 + 7000), 1e-5 + 1.4e-4 * (2 + std::sqrt(2.0)) / 4, 1e-18);  // a quarter
  EXPECT_NEAR(learning_rate(s, 16000), 8e-5, 1e-18);
  EXPECT_EQ(learning_rate(s, 30000), 1e-5);
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

// decay_steps is the step at which the floor is reached, also right behind the warm-up.
TEST(LearningRate, DecayNoLongerThanTheWarmUp) {
  for (Decay decay : {Decay::linear, Decay::cosine}) {
    const LearningRateSchedule s{
        .peak = 8.0, .floor = 2.0, .warmup_steps = 4, .decay_steps = 4, .decay = decay};
    EXPECT_EQ(learning_rate(s, 3), 8.0);
    EXPECT_EQ(learning_rate(s, 4), 2.0);
    EXPECT_EQ(learning_rate(s, 5), 2.0);
  }
}

}  // namespace
}  // namespace tessera
