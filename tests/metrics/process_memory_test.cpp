#include "tessera/metrics/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

TEST(ProcessMemory, SeesTouchedPagesComeAndThePeakStay) {
  constexpr std::int64_t kBytes = 64 << 20;
  const ProcessMemory before = process_memory();
  EXPECT_GT(before.resident_bytes, 0);
  EXPECT_GE(before.peak_resident_bytes, before.resident_bytes);
  ProcessMemory with;
  {
    std::vector<char> block(kBytes, 1);
    with = process_memory();
    EXPECT_EQ(block[kBytes / 2], 1);
  }
  EXPECT_GE(with.resident_bytes, before.resident_bytes + kBytes * 9 / 10);
  EXPECT_GE(process_memory().peak_resident_bytes, before.resident_bytes + kBytes * 9 / 10);
}

}  // namespace
}  // namespace tessera
