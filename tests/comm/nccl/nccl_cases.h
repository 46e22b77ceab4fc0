// What NcclCommunicator asks of a fake NCCL on host memory, as cases that run on all ranks of a world and
// throw when something is wrong: over threads by nccl_communicator_test, over MPI, which then carries NCCL's
// id, by mpi_ranks.
#pragma once

#include <vector>

#include "comm/nccl/fake_nccl.h"
#include "comm/reference.h"
#include "tessera/comm/nccl/nccl_communicator.h"

namespace tessera::fake_nccl {

using conformance::describe;
using conformance::expect_same_bits;
using conformance::reduced;
using conformance::value;
using conformance::values;

inline const std::vector<std::int64_t> kCounts{0, 1, 2, 7, 12, 64, 1025};
inline const std::vector<Strips> kStrips{{1, 0}, {1, 5}, {3, 7}, {64, 1}, {7, 129}};

inline void get_the_id_of_rank_zero(NcclCommunicator&, Communicator&) {
  for (char byte : fake_nccl::rank.id.internal) TS_CHECK(byte == 0x5a, "the id of another rank");
}

inline void reduce_a_bucket_in_one_group(NcclCommunicator& comm, Communicator& world) {
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
}

inline void gather_strips(NcclCommunicator& comm, Communicator& world) {
  for (const Strips& strips : kStrips) {
    const std::vector<float> part = values<float>(5, comm.rank(), strips.outer * strips.inner);
    std::vector<float> whole(part.size() * static_cast<std::size_t>(comm.size())), expected(whole.size());
    comm.all_gather(part.data(), whole.data(), strips, DType::f32, nullptr);
    world.all_gather(part.data(), expected.data(), strips, DType::f32);
    expect_same_bits(whole, expected, describe("all_gather", strips.outer, strips.inner, DType::f32, world));
  }
}

inline void scatter_sums_of_strips(NcclCommunicator& comm, Communicator& world) {
  for (const Strips& strips : kStrips) {
    const std::int64_t count = strips.outer * strips.inner;
    const std::vector<float> whole = values<float>(9, comm.rank(), count * comm.size());
    std::vector<float> part(static_cast<std::size_t>(count)), expected(part.size());
    comm.reduce_scatter(whole.data(), part.data(), strips, DType::f32, Reduction::sum, nullptr);
    world.reduce_scatter(whole.data(), expected.data(), strips, DType::f32, Reduction::sum);
    expect_same_bits(part, expected,
                     describe("reduce_scatter", strips.outer, strips.inner, DType::f32, world));
  }
}

inline void work_on_ranges_in_place_whether_they_divide_or_not(NcclCommunicator& comm, Communicator& world) {
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
}

inline void broadcast_bytes(NcclCommunicator& comm, Communicator& world) {
  for (int root = 0; root < comm.size(); ++root) {
    std::vector<std::int32_t> data = values<std::int32_t>(root, comm.rank(), 33);
    comm.broadcast(data.data(), 33 * 4, root, nullptr);
    expect_same_bits(data, values<std::int32_t>(root, root, 33),
                     describe("broadcast", 1, 33, DType::i32, world));
  }
}

struct Case {
  const char* name;
  void (*run)(NcclCommunicator& comm, Communicator& world);
};

inline const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"GetTheIdOfRankZero", get_the_id_of_rank_zero},
      {"ReduceABucketInOneGroup", reduce_a_bucket_in_one_group},
      {"GatherStrips", gather_strips},
      {"ScatterSumsOfStrips", scatter_sums_of_strips},
      {"WorkOnRangesInPlaceWhetherTheyDivideOrNot", work_on_ranges_in_place_whether_they_divide_or_not},
      {"BroadcastBytes", broadcast_bytes}};
  return all;
}

// One case on this rank of a group.
inline void run_case(const Case& c, Communicator& group) {
  rank = {.host = &group};
  NcclCommunicator comm(group, library());
  c.run(comm, group);
}

}  // namespace tessera::fake_nccl
