// The learning rate of a step: linear warm-up, then constant, linear or cosine decay to a floor.
#pragma once

#include <cstdint>

namespace tessera {

enum class Decay : std::uint8_t { constant, linear, cosine };

struct LearningRateSchedule {
  double peak = 3e-4;
  double floor = 0.0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 1;  // the step at which the floor is reached, warm-up included
  Decay decay = Decay::cosine;
};

// `step` counts from 0. Warm-up gives peak * (step + 1) / warmup_steps: the first step already learns.
double learning_rate(const LearningRateSchedule& schedule, std::int64_t step);

}  // namespace tessera
