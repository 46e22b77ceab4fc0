// The list of a product's tasks: each once, and behind everything it waits for, which rules out a deadlock.
#include "tessera/backend/cpu/gemm_schedule.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace tessera::cpu {
namespace {

using Key = std::tuple<std::int64_t, bool, std::int64_t>;

// Where each task stands in the list.
std::map<Key, std::int64_t> places(const GemmSchedule& schedule) {
  std::map<Key, std::int64_t> places;
  for (std::int64_t number = 0; number < schedule.num_tasks(); ++number) {
    const GemmSchedule::Task task = schedule.task(number);
    if (!schedule.contains(task)) continue;
    const bool is_new = places.emplace(Key{task.block, task.packs, task.index}, number).second;
    EXPECT_TRUE(is_new) << number;
  }
  return places;
}

void expect_order(std::int64_t num_blocks, std::int64_t num_packs, std::int64_t num_tiles) {
  SCOPED_TRACE(::testing::Message() << num_blocks << " blocks, " << num_packs << " packs, " << num_tiles);
  std::vector<std::int32_t> blocks_done(static_cast<std::size_t>(num_tiles));
  const GemmSchedule schedule(num_blocks, num_packs, blocks_done);
  const auto place = places(schedule);
  EXPECT_EQ(std::ssize(place), num_blocks * (num_packs + num_tiles));
  for (const auto& [key, number] : place) {
    const auto [block, packs, index] = key;
    if (packs) {
      for (std::int64_t t = 0; block >= 2 && t < num_tiles; ++t)
        EXPECT_LT(place.at({block - 2, false, t}), number);
    } else {
      for (std::int64_t p = 0; p < num_packs; ++p) EXPECT_LT(place.at({block, true, p}), number);
      if (block >= 1) {
        EXPECT_LT(place.at({block - 1, false, index}), number);
      }
    }
  }
}

TEST(GemmSchedule, ATaskStandsBehindWhatItWaitsFor) {
  for (const std::int64_t num_blocks : {0, 1, 2, 3, 7}) {
    for (const std::int64_t num_packs : {0, 1, 4, 13, 40}) {
      for (const std::int64_t num_tiles : {1, 2, 16, 33}) expect_order(num_blocks, num_packs, num_tiles);
    }
  }
}

// On one thread nothing is waited for: the list itself is an order in which the work can be done.
TEST(GemmSchedule, OneThreadNeverWaits) {
  std::vector<std::int32_t> blocks_done(16);
  GemmSchedule schedule(5, 4, blocks_done);
  for (std::int64_t number = 0; number < schedule.num_tasks(); ++number) {
    const GemmSchedule::Task task = schedule.task(number);
    if (!schedule.contains(task)) continue;
    schedule.wait_for(task);
    schedule.finish(task);
  }
  for (const std::int32_t done : blocks_done) EXPECT_EQ(done, 5);
}

}  // namespace
}  // namespace tessera::cpu
