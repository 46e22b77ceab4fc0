// The learning rate of a step: linear warm-up, then constant, linear or cosine decay to a floor, which is
// kept.
#pragma once

#include <cstdint>

namespace tessera {

enum class Decay : std::uint8_t { constant, linear, cosine };

// The rate of step t < w of w warm-up steps, as a share of the peak. All three are in use; runs that are to
// agree with another system's step by step need its own.
enum class Warmup : std::uint8_t {
  to_peak,    // (t + 1) / w: the first step learns, the last has the peak
  from_zero,  // t / w: the first step learns nothing (transformers, Megatron)
  between,    // (t + 1) / (w + 1): neither 0 nor the peak (NeMo without a constant phase)
};

struct LearningRateSchedule {
  double peak = 3e-4;
  double floor = 0.0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 1;  // the step at which the floor is reached, warm-up included
  Decay decay = Decay::cosine;
  Warmup warmup = Warmup::to_peak;
};

// `step` counts from 0.
double learning_rate(const LearningRateSchedule& schedule, std::int64_t step);

}  // namespace tessera
