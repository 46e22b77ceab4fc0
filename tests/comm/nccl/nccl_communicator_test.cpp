// What NcclCommunicator asks of NCCL, on a fake that works on host memory.
#include "tessera/comm/nccl/nccl_communicator.h"

#include <gtest/gtest.h>

#include "comm/nccl/fake_nccl.h"
#include "comm/reference.h"
#include "tessera/comm/local/local_world.h"

namespace tessera {
namespace {

using conformance::describe;
using conformance::expect_same_bits;
using conformance::reduced;
using conformance::value;
using conformance::values;

const std::vector<std::int64_t> kCounts{0, 1, 2, 7, 12, 64, 1025};
const std::vector<Strips> kStrips{{1, 0}, {1, 5}, {3, 7}, {64, 1}, {7, 129}};

// Runs f(communicator, world) on every rank.
template <class F>
void on_ranks(int num_ranks, F f) {
  run_local_ranks(num_ranks, [&](Communicator& world) {
    fake_nccl::rank = {.host = &world};
    NcclCommunicator comm(world, fake_nccl::library());
    f(comm, world);
  });
}

class NcclRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Nccl, NcclRanks, testing::Values(1, 2, 3, 4));

TEST_P(NcclRanks, GetTheIdOfRankZero) {
  on_ranks(GetParam(), [](NcclCommunicator&, Communicator&) {
    for (char byte : fake_nccl::rank.id.internal) TS_CHECK(byte == 0x5a, "the id of another rank");
  });
}

TEST_P(NcclRanks, ReduceABucketInOneGroup) {
  on_ranks(GetParam(), [](NcclCommunicator& comm, Communicator& world) {
    conformance::for_each_dtype([&]<class T>(T) {
      std::vector<std::vector<T>> data;
      std::vector<DeviceTensor> tensors;
      for (std::int64_t count : kCounts) data.push_back(values<T>(3, comm.rank(), count));
      for (auto& d : data) tensors.push_back({d.data(), std::ssize(d), dtype_of<T>});
      const int groups = fake_nccl::rank.group_calls;
      comm.all_reduce(tensors, Reduction::sum, nullptr);
      TS_CHECK(fake_nccl::rank.group_calls == groups + 1, "not one group");
      for (const auto& found : data) {
        std::vector<T> expected;
        for (std::int64_t i = 0; i < std::ssize(found); ++i)
          expected.push_back(reduced<T>(3, comm.size(), i, Reduction::sum));
        expect_same_bits(found, expected, describe("all_reduce", 1, std::ssize(found), dtype_of<T>, world));
      }
    });
  });
}

TEST_P(NcclRanks, GatherStrips) {
  on_ranks(GetParam(), [](NcclCommunicator& comm, Communicator& world) {
    for (const Strips& strips : kStrips) {
      const std::vector<float> part = values<float>(5, comm.rank(), strips.outer * strips.inner);
      std::vector<float> whole(part.size() * static_cast<std::size_t>(comm.size())), expected(whole.size());
      comm.all_gather(part.data(), whole.data(), strips, DType::f32, nullptr);
      world.all_gather(part.data(), expected.data(), strips, DType::f32);
      expect_same_bits(whole, expected,
                       describe("all_gather", strips.outer, strips.inner, DType::f32, world));
    }
  });
}

TEST_P(NcclRanks, ScatterSumsOfStrips) {
  on_ranks(GetParam(), [](NcclCommunicator& comm, Communicator& world) {
    for (const Strips& strips : kStrips) {
      const std::int64_t count = strips.outer * strips.inner;
      const std::vector<float> whole = values<float>(9, comm.rank(), count * comm.size());
      std::vector<float> part(static_cast<std::size_t>(count)), expected(part.size());
      comm.reduce_scatter(whole.data(), part.data(), strips, DType::f32, Reduction::sum, nullptr);
      world.reduce_scatter(whole.data(), expected.data(), strips, DType::f32, Reduction::sum);
      expect_same_bits(part, expected,
                       describe("reduce_scatter", strips.outer, strips.inner, DType::f32, world));
    }
  });
}

TEST_P(NcclRanks, WorkOnRangesInPlaceWhetherTheyDivideOrNot) {
  on_ranks(GetParam(), [](NcclCommunicator& comm, Communicator& world) {
    for (std::int64_t count : kCounts) {
      std::vector<float> data = values<float>(7, comm.rank(), count);
      const DeviceTensor tensor{data.data(), count, DType::f32};
      comm.reduce_scatter_ranges({&tensor, 1}, Reduction::sum, nullptr);
      const TensorRange own = range_of(count, comm.size(), comm.rank());
      std::vector<float> found(data.begin() + own.begin, data.begin() + own.begin + own.count), expected;
      for (std::int64_t i = 0; i < own.count; ++i)
        expected.push_back(reduced<float>(7, comm.size(), own.begin + i, Reduction::sum));
      expect_same_bits(found, expected, describe("reduce_scatter_ranges", 1, count, DType::f32, world));

      comm.all_gather_ranges({&tensor, 1}, nullptr);
      expected.clear();
      for (std::int64_t i = 0; i < count; ++i)
        expected.push_back(reduced<float>(7, comm.size(), i, Reduction::sum));
      expect_same_bits(data, expected, describe("all_gather_ranges", 1, count, DType::f32, world));
    }
  });
}

TEST_P(NcclRanks, BroadcastBytes) {
  on_ranks(GetParam(), [](NcclCommunicator& comm, Communicator& world) {
    for (int root = 0; root < comm.size(); ++root) {
      std::vector<std::int32_t> data = values<std::int32_t>(root, comm.rank(), 33);
      comm.broadcast(data.data(), 33 * 4, root, nullptr);
      expect_same_bits(data, values<std::int32_t>(root, root, 33),
                       describe("broadcast", 1, 33, DType::i32, world));
    }
  });
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
