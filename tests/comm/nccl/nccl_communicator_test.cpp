// What NcclCommunicator asks of NCCL, on a fake that works on host memory.
#include <gtest/gtest.h>

#include <tuple>

#include "comm/nccl/nccl_cases.h"
#include "tessera/comm/local/local_world.h"

namespace tessera {
namespace {

// Runs f(communicator, world) on every rank.
template <class F>
void on_ranks(int num_ranks, F f) {
  run_local_ranks(num_ranks, [&](Communicator& world) {
    fake_nccl::rank = {.host = &world};
    NcclCommunicator comm(world, fake_nccl::library());
    f(comm, world);
  });
}

class NcclRanks : public testing::TestWithParam<std::tuple<fake_nccl::Case, int>> {};
INSTANTIATE_TEST_SUITE_P(Nccl, NcclRanks,
                         testing::Combine(testing::ValuesIn(fake_nccl::cases()), testing::Values(1, 2, 3, 4)),
                         [](const auto& ranks) {
                           return fmt::format("{}_{}", std::get<0>(ranks.param).name,
                                              std::get<1>(ranks.param));
                         });

TEST_P(NcclRanks, Conform) {
  const auto& [c, num_ranks] = GetParam();
  run_local_ranks(num_ranks, [&](Communicator& world) { fake_nccl::run_case(c, world); });
}

// The message of the Error that f(communicator) throws, and how often its rank aborted.
template <class F>
std::string failure_of(F f, int& aborted) {
  std::string message;
  on_ranks(1, [&](NcclCommunicator& comm, Communicator&) {
    try {
      f(comm);
    } catch (const Error& e) {
      message = e.what();
    }
    aborted = fake_nccl::rank.aborted;
    EXPECT_EQ(fake_nccl::rank.groups_open_at_abort, 0);
  });
  return message;
}

TEST(NcclFailures, OfACallAbortAndNameItAndTheRank) {
  int aborted = 0;
  const std::string message = failure_of(
      [](NcclCommunicator& comm) {
        fake_nccl::rank.fail_call = 0;
        std::vector<float> data(3);
        comm.broadcast(data.data(), 12, 0, nullptr);
      },
      aborted);
  EXPECT_EQ(message, "NCCL: broadcast on rank 0 of 1: remote process exited: connection closed");
  EXPECT_EQ(aborted, 1);
}

TEST(NcclFailures, OfItsThreadsAreFoundByTheNextCall) {
  int aborted = 0;
  const std::string message = failure_of(
      [](NcclCommunicator& comm) {
        fake_nccl::rank.async_error = 6;
        comm.all_gather_ranges({}, nullptr);
      },
      aborted);
  EXPECT_EQ(message, "NCCL: all_gather_ranges on rank 0 of 1: remote process exited: connection closed");
  EXPECT_EQ(aborted, 1);
}

TEST(NcclFailures, AreSaidAgainByLaterCalls) {
  int aborted = 0;
  const std::string message = failure_of(
      [](NcclCommunicator& comm) {
        fake_nccl::rank.async_error = 6;
        EXPECT_THROW(comm.all_gather_ranges({}, nullptr), Error);
        comm.all_gather_ranges({}, nullptr);
      },
      aborted);
  EXPECT_EQ(message, "NCCL: all_gather_ranges on rank 0 of 1: an earlier call has failed");
  EXPECT_EQ(aborted, 1);
}

TEST(NcclFailures, OfTheRankItselfAbortInsteadOfEndingTogether) {
  const auto ends = [](bool fails) {
    run_local_ranks(1, [&](Communicator& world) {
      fake_nccl::rank = {.host = &world};
      try {
        const NcclCommunicator comm(world, fake_nccl::library());
        if (fails) throw Error("out of tokens");
      } catch (const Error&) {
      }
      EXPECT_EQ(fake_nccl::rank.aborted, fails ? 1 : 0);
      EXPECT_EQ(fake_nccl::rank.destroyed, fails ? 0 : 1);
    });
  };
  ends(false);
  ends(true);
}

TEST(NcclLibraryTest, SaysItsVersion) {
  EXPECT_EQ(nccl_version_text(fake_nccl::library()), "NCCL 2.28.3");
}

}  // namespace
}  // namespace tessera
