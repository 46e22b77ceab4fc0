// FakeNccl: NCCL's functions on host memory, for ranks that are threads: what a rank calls is done at once by
// the local communicator. Lets NcclCommunicator's use of NCCL be tested where there is no GPU.
#pragma once

#include <atomic>
#include <cstring>
#include <vector>

#include "tessera/comm/nccl/nccl_library.h"

struct ncclComm {
  tessera::Communicator& host;
  int open_groups = 0;
  int calls = 0;
};

namespace tessera::fake_nccl {

struct Rank {
  Communicator* host = nullptr;  // what NCCL's own connections would be
  ncclComm* comm = nullptr;
  int fail_call = -1;   // this collective call, from 0, fails
  int async_error = 0;  // what NCCL's threads have to say
  int group_calls = 0;  // group_start so far
  int destroyed = 0, aborted = 0, groups_open_at_abort = 0;
  NcclId id{};
};
inline thread_local Rank rank;

inline DType dtype_of_number(int number) {
  switch (number) {
    case kNcclFloat32:
      return DType::f32;
    case kNcclFloat64:
      return DType::f64;
    case kNcclBfloat16:
      return DType::bf16;
    default:
      TS_CHECK(number == kNcclInt32, "NCCL has no type {} here", number);
      return DType::i32;
  }
}

// 0, or the failure that was asked for.
inline int result_of_call(const ncclComm* comm) {
  TS_CHECK(comm->open_groups == 1, "a call outside of a group");
  return rank.comm->calls++ == rank.fail_call ? 6 : kNcclSuccess;
}

inline int all_reduce(const void* from, void* to, std::size_t count, int dtype, int reduction, ncclComm* comm,
                      DeviceStream) {
  TS_CHECK(from == to && reduction == kNcclSum, "expected a sum in place");
  if (const int result = result_of_call(comm)) return result;
  comm->host.all_reduce(to, static_cast<std::int64_t>(count), dtype_of_number(dtype), Reduction::sum);
  return kNcclSuccess;
}

inline int reduce(const void* from, void* to, std::size_t count, int dtype, int, int root, ncclComm* comm,
                  DeviceStream) {
  if (const int result = result_of_call(comm)) return result;
  const DType type = dtype_of_number(dtype);
  std::vector<std::byte> sum(count * static_cast<std::size_t>(dtype_bytes(type)));
  if (!sum.empty()) std::memcpy(sum.data(), from, sum.size());
  comm->host.all_reduce(sum.data(), static_cast<std::int64_t>(count), type, Reduction::sum);
  if (comm->host.rank() == root && !sum.empty()) std::memcpy(to, sum.data(), sum.size());
  return kNcclSuccess;
}

inline int broadcast(const void* from, void* to, std::size_t count, int dtype, int root, ncclComm* comm,
                     DeviceStream) {
  TS_CHECK(from == to, "expected a broadcast in place");
  if (const int result = result_of_call(comm)) return result;
  const std::int64_t elem_bytes = dtype == kNcclInt8 ? 1 : dtype_bytes(dtype_of_number(dtype));
  comm->host.broadcast(to, static_cast<std::int64_t>(count) * elem_bytes, root);
  return kNcclSuccess;
}

inline int all_gather(const void* from, void* to, std::size_t count, int dtype, ncclComm* comm,
                      DeviceStream) {
  if (const int result = result_of_call(comm)) return result;
  comm->host.all_gather(from, to, {1, static_cast<std::int64_t>(count)}, dtype_of_number(dtype));
  return kNcclSuccess;
}

inline int reduce_scatter(const void* from, void* to, std::size_t count, int dtype, int, ncclComm* comm,
                          DeviceStream) {
  if (const int result = result_of_call(comm)) return result;
  comm->host.reduce_scatter(from, to, {1, static_cast<std::int64_t>(count)}, dtype_of_number(dtype),
                            Reduction::sum);
  return kNcclSuccess;
}

inline NcclLibrary library() {
  NcclLibrary nccl;
  nccl.get_version = [](int* version) { return *version = 22803, kNcclSuccess; };
  // As NCCL's own, another one for every rank that asks.
  nccl.get_unique_id = [](NcclId* id) {
    return std::memset(id, 0x5a + rank.host->rank(), sizeof(*id)), kNcclSuccess;
  };
  nccl.comm_init_rank = [](ncclComm** comm, int num_ranks, NcclId id, int number) {
    TS_CHECK(num_ranks == rank.host->size() && number == rank.host->rank(), "ranks are mixed up");
    rank.id = id;
    *comm = rank.comm = new ncclComm{*rank.host};
    return kNcclSuccess;
  };
  nccl.comm_destroy = [](ncclComm* comm) { return delete comm, ++rank.destroyed, kNcclSuccess; };
  nccl.comm_abort = [](ncclComm* comm) {
    rank.groups_open_at_abort = comm->open_groups;
    return delete comm, ++rank.aborted, kNcclSuccess;
  };
  nccl.comm_get_async_error = [](ncclComm*, int* result) { return *result = rank.async_error, kNcclSuccess; };
  nccl.get_error_string = [](int) { return "remote process exited"; };
  nccl.get_last_error = [](ncclComm*) { return "connection closed"; };
  nccl.group_start = [] { return ++rank.comm->open_groups, ++rank.group_calls, kNcclSuccess; };
  nccl.group_end = [] { return --rank.comm->open_groups, kNcclSuccess; };
  nccl.all_reduce = all_reduce;
  nccl.reduce = reduce;
  nccl.broadcast = broadcast;
  nccl.all_gather = all_gather;
  nccl.reduce_scatter = reduce_scatter;
  return nccl;
}

}  // namespace tessera::fake_nccl
