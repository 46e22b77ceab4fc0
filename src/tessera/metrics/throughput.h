// Throughput: sequences per second as a mean over the last ten steps, and the highest such mean.
// Fed by the training loop once per step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera {

class Throughput {
 public:
  static constexpr std::size_t kWindow = 10;

  explicit Throughput(std::int64_t sequences_per_step, double earlier_peak = 0)
      : sequences_per_step_(static_cast<double>(sequences_per_step)), peak_(earlier_peak) {}

  void add_step(double seconds);

  double step_seconds() const;          // mean of the window
  double sequences_per_second() const;  // likewise
  double peak() const { return peak_; }

 private:
  double sequences_per_step_;
  double peak_;
  std::array<double, kWindow> seconds_{};  // the newest at (count_ - 1) % kWindow
  std::size_t count_ = 0;
};

}  // namespace tessera
