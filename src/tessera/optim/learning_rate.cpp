#include "tessera/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {

double learning_rate(const LearningRateSchedule& s, std::int64_t step) {
  if (step < s.warmup_steps)
    return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  if (s.decay == Decay::constant) return s.peak;
  const double span = static_cast<double>(std::max<std::int64_t>(1, s.decay_steps - s.warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - s.warmup_steps) / span);
  const double left = s.decay == Decay::linear ? 1.0 - done : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return s.floor + (s.peak - s.floor) * left;
}

}  // namespace tessera
