// The two promises of a RankBarrier that a whole program meets only in rare moments: nobody leaves finish()
// while another rank works, failure or not; and a meeting takes place for all or for none.
#include "tessera/comm/local/rank_barrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera::local {
namespace {

TEST(RankBarrier, AFailureDoesNotEndTheWorkOfACall) {
  RankBarrier ranks(2);
  std::atomic<bool> worked{false};
  std::jthread slow([&] {
    ranks.meet();
    ranks.fail();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    worked = true;
    ranks.finish();
  });
  ranks.meet();
  ranks.finish();
  EXPECT_TRUE(worked);
  EXPECT_THROW(ranks.meet(), PeerFailed);
}

TEST(RankBarrier, AMeetingTakesPlaceForAllOrForNone) {
  for (int round = 0; round < 300; ++round) {
    RankBarrier ranks(3);
    std::atomic<int> met{0}, ready{0};
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&] {
        for (++ready; ready < 4;) std::this_thread::yield();
        try {
          ranks.meet();
          ++met;
        } catch (const PeerFailed&) {
        }
      });
    }
    for (++ready; ready < 4;) std::this_thread::yield();
    for (std::atomic<int> i{0}; i < round % 100; ++i) continue;  // earlier or later than the last rank
    ranks.fail();
    threads.clear();
    EXPECT_TRUE(met == 0 || met == 3) << met;
  }
}

}  // namespace
}  // namespace tessera::local
