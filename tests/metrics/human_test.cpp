#include "tessera/metrics/human.h"

#include <gtest/gtest.h>

#include <limits>

namespace tessera {
namespace {

TEST(Human, Durations) {
  EXPECT_EQ(human_duration(0.2), "0s");
  EXPECT_EQ(human_duration(59.4), "59s");
  EXPECT_EQ(human_duration(59.6), "1m00s");
  EXPECT_EQ(human_duration(72), "1m12s");
  EXPECT_EQ(human_duration(3 * 3600 + 5 * 60 + 59), "3h05m");
  EXPECT_EQ(human_duration(2 * 86400 + 4 * 3600), "2d04h");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(Human, Counts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(812), "812");
  EXPECT_EQ(human_count(999.7), "1.0k");
  EXPECT_EQ(human_count(45100), "45.1k");
  EXPECT_EQ(human_count(99960), "100k");
  EXPECT_EQ(human_count(999600), "1.0M");
  EXPECT_EQ(human_count(7.2e6), "7.2M");
}

TEST(Human, Bytes) {
  EXPECT_EQ(human_bytes(812), "812 B");
  EXPECT_EQ(human_bytes(512e6), "512 MB");
  EXPECT_EQ(human_bytes(2.6e9), "2.6 GB");
}

}  // namespace
}  // namespace tessera
