#include "tessera/metrics/throughput.h"

#include <algorithm>
#include <numeric>

namespace tessera {

void Throughput::add_step(double seconds) {
  seconds_[count_++ % kWindow] = std::max(seconds, 1e-9);
  peak_ = std::max(peak_, sequences_per_second());
}

double Throughput::step_seconds() const {
  const std::size_t steps = std::min(count_, kWindow);
  return steps == 0 ? 0.0
                    : std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(steps);
}

double Throughput::sequences_per_second() const {
  return count_ == 0 ? 0.0 : sequences_per_step_ / step_seconds();
}

}  // namespace tessera
