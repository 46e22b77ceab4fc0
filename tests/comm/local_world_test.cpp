// A world of threads: who fails, who is told, what reaches the caller; and what a barrier promises.
#include "tessera/comm/local/local_world.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "comm/failing_rank.h"

namespace tessera {
namespace {

std::string failure_of(int num_ranks, const std::function<void(Communicator& world)>& rank_program) {
  try {
    run_local_ranks(num_ranks, rank_program);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(LocalWorld, OneRanksFailureReachesRanksThatWait) {
  for (const int num_ranks : {2, 3, 8}) {
    for (const conformance::Waiting& way : conformance::ways_to_wait()) {
      for (const int failing : {0, num_ranks - 1}) {
        for (const bool in_a_split : {false, true}) {
          EXPECT_EQ(failure_of(num_ranks,
                               [&](Communicator& world) {
                                 conformance::fail_while_others_wait(world, way, failing, in_a_split);
                               }),
                    fmt::format("rank {}: gave up", failing))
              << way.name << " of " << num_ranks << (in_a_split ? " in a split" : "");
        }
      }
    }
  }
}

// Ranks 0 and 1 are in the middle of large all-reduces of their own group when rank 2 fails: neither may
// leave while the other writes into its buffer. The sanitizers see it if one does.
TEST(LocalWorld, AFailureElsewhereDoesNotTearACollective) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> calls{0};
    EXPECT_EQ(failure_of(3,
                         [&](Communicator& world) {
                           const auto group = world.split(world.rank() / 2, 0);
                           while (world.rank() == 2) {
                             if (calls > 5) fail("gave up");
                           }
                           while (true) {
                             std::vector<float> data(300000);
                             group->all_reduce(data.data(), 300000, DType::f32, Reduction::sum);
                             ++calls;
                           }
                         }),
              "rank 2: gave up");
  }
}

TEST(LocalWorld, RanksThatEnterACallLaterFailToo) {
  std::atomic<int> told{0};
  EXPECT_EQ(failure_of(4,
                       [&](Communicator& world) {
                         if (world.rank() == 1) fail("gave up");
                         try {
                           world.barrier();
                         } catch (const PeerFailed&) {
                         }
                         try {
                           float data = 0;
                           world.send(&data, 4, 0, 0);
                           world.receive(&data, 4, world.rank(), 0);
                         } catch (const PeerFailed&) {
                           ++told;
                         }
                         world.split(0, 0);
                       }),
            "rank 1: gave up");
  EXPECT_EQ(told, 3);
}

TEST(LocalWorld, OnlyTheFirstFailureIsReported) {
  EXPECT_EQ(failure_of(3,
                       [](Communicator& world) {
                         if (world.rank() == 0) fail("the cause");
                         try {
                           world.barrier();
                         } catch (const PeerFailed& e) {
                           fail("a consequence: {}", e.what());
                         }
                       }),
            "rank 0: the cause");
}

TEST(LocalWorld, AbortEndsTheWorldFromAGroup) {
  EXPECT_EQ(failure_of(4,
                       [](Communicator& world) {
                         const auto group = world.split(world.rank() % 2, 0);
                         if (world.rank() == 3) group->abort("the disk is full");
                         world.barrier();
                       }),
            "rank 3: the disk is full");
}

TEST(LocalWorld, NamesTheRankThatRanOutOfMemory) {
  EXPECT_EQ(failure_of(2,
                       [](Communicator& world) {
                         if (world.rank() == 1) throw std::bad_alloc();
                         world.barrier();
                       }),
            "rank 1: not enough memory");
}

TEST(LocalWorld, RanksThatCallDifferentThingsAreRefused) {
  const std::string message = failure_of(2, [](Communicator& world) {
    std::vector<float> data(8);
    world.all_reduce(data.data(), world.rank() == 0 ? 8 : 7, DType::f32, Reduction::sum);
  });
  EXPECT_NE(message.find("rank 0 of the group calls all_reduce(outer 1, inner 8, f32"), std::string::npos)
      << message;
  EXPECT_NE(message.find("rank 1 calls all_reduce(outer 1, inner 7, f32"), std::string::npos) << message;
}

TEST(LocalWorld, AMessageOfAnotherSizeIsRefused) {
  EXPECT_EQ(failure_of(2,
                       [](Communicator& world) {
                         std::vector<float> data(8);
                         if (world.rank() == 0) world.send(data.data(), 32, 1, 5);
                         if (world.rank() == 1) world.receive(data.data(), 28, 0, 5);
                       }),
            "rank 1: receive from rank 0, tag 5: found a message of 32 bytes, expected 28");
}

TEST(LocalWorld, RefusesNoRanks) {
  EXPECT_THROW(run_local_ranks(0, [](Communicator&) {}), Error);
}

TEST(LocalWorld, WorksAfterAFailedOne) {
  EXPECT_NE(failure_of(2, [](Communicator&) { fail("gave up"); }), "");
  EXPECT_EQ(failure_of(2, [](Communicator& world) { world.barrier(); }), "");
}

TEST(LocalWorld, NobodyLeavesABarrierBeforeAllCame) {
  std::atomic<int> came{0};
  EXPECT_EQ(failure_of(5,
                       [&](Communicator& world) {
                         for (int round = 1; round <= 200; ++round) {
                           ++came;
                           world.barrier();
                           TS_CHECK(came >= 5 * round, "round {}: {} came", round, came.load());
                         }
                       }),
            "");
}

// As one that waits in a driver for a kernel whose peer is gone.
TEST(LocalWorldDeathTest, ARankThatHearsOfNothingDoesNotKeepTheOthersFailureFromTheUser) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    run_local_ranks(
        2,
        [](Communicator& world) {
          TS_CHECK(world.rank() != 1, "the disk is full");
          std::this_thread::sleep_for(std::chrono::minutes(10));
        },
        std::chrono::seconds(1));
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(1), "rank 1: the disk is full\nother ranks have not ended 1 s");
}

}  // namespace
}  // namespace tessera
