#include "tessera/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {
namespace {

double warmup_share(const LearningRateSchedule& s, std::int64_t step) {
  const auto t = static_cast<double>(step), w = static_cast<double>(s.warmup_steps);
  switch (s.warmup) {
    case Warmup::from_zero:
      return t / w;
    case Warmup::between:
      return (t + 1) / (w + 1);
    case Warmup::to_peak:
      break;
  }
  return (t + 1) / w;
}

}  // namespace

double learning_rate(const LearningRateSchedule& s, std::int64_t step) {
  if (step < s.warmup_steps) return s.peak * warmup_share(s, step);
  if (s.decay == Decay::constant) return s.peak;
  if (step >= s.decay_steps) return s.floor;
  const auto span = static_cast<double>(s.decay_steps - s.warmup_steps);
  const double done = static_cast<double>(step - s.warmup_steps) / span;
  const double left = s.decay == Decay::linear ? 1.0 - done : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return s.floor + (s.peak - s.floor) * left;
}

}  // namespace tessera
