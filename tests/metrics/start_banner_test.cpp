#include "tessera/metrics/start_banner.h"

#include <gtest/gtest.h>

#include <limits>

namespace tessera {
namespace {

// The numbers of a documented run of GPT-2 on 32 devices: 114248 examples, 29 epochs.
TEST(StartBanner, CountsEpochsAsTheOriginalDoes) {
  RunSize size{.examples = 114248,
               .batch_per_device = 1,
               .data_parallel = 32,
               .accumulation = 1,
               .steps = 100000,
               .seq_len = 1024};
  EXPECT_EQ(size.total_batch(), 32);
  EXPECT_EQ(size.steps_per_epoch(), 3571);
  EXPECT_EQ(size.epochs(), 29);
  EXPECT_EQ(start_banner(size),
            "training\n"
            "  examples                114248  of 1024 tokens\n"
            "  epochs                      29  of 3571 steps\n"
            "  batch per device             1\n"
            "  accumulation                 1\n"
            "  total batch                 32  = 1 per device x 1 accumulated x 32 data-parallel\n"
            "  steps                   100000");
}

TEST(StartBanner, CountsEpochsOfAnyNumberOfSteps) {
  RunSize size;
  size.examples = 656;
  size.steps = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(size.epochs(), size.steps / size.steps_per_epoch() + 1);
}

TEST(StartBanner, AnUnknownNumberOfExamplesIsNoEpoch) {
  EXPECT_EQ((RunSize{.steps = 10}.epochs()), 0);
}

}  // namespace
}  // namespace tessera
