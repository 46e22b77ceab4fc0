#include "tessera/metrics/throughput.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

TEST(Throughput, IsTheMeanOfTheLastTenSteps) {
  Throughput throughput(32);
  EXPECT_EQ(throughput.sequences_per_second(), 0);
  std::vector<double> seconds;
  double peak = 0;
  for (int step = 0; step < 37; ++step) {
    seconds.push_back(1.0 + (step * 7 % 5) * 0.25 + (step > 20 ? 1 : 0));
    throughput.add_step(seconds.back());
    double sum = 0;
    const std::size_t window = std::min<std::size_t>(seconds.size(), 10);
    for (std::size_t i = seconds.size() - window; i < seconds.size(); ++i) sum += seconds[i];
    const double wanted = static_cast<double>(window) * 32 / sum;
    EXPECT_DOUBLE_EQ(throughput.sequences_per_second(), wanted) << step;
    EXPECT_DOUBLE_EQ(throughput.step_seconds(), sum / static_cast<double>(window)) << step;
    peak = std::max(peak, wanted);
    EXPECT_DOUBLE_EQ(throughput.peak(), peak) << step;
  }
}

TEST(Throughput, AResumedRunKeepsItsPeak) {
  Throughput throughput(8, 100);
  throughput.add_step(1);
  EXPECT_EQ(throughput.sequences_per_second(), 8);
  EXPECT_EQ(throughput.peak(), 100);
  throughput.add_step(0.01);
  throughput.add_step(0.01);
  EXPECT_EQ(throughput.peak(), 100);
}

}  // namespace
}  // namespace tessera
