// In the place of comm/nccl/nccl_library.cpp: NCCL for the emulated GPUs of this process. As NCCL's, a call
// is work of a stream, which begins when all ranks have come to theirs, and a group of calls is one. Sums are
// in the order of the ranks, so that they can be compared.
#include "tessera/comm/nccl/nccl_library.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulated_gpu/stream.h"
#include "tessera/base/bf16.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr int kInvalidArgument = 4;

enum class Kind : std::uint8_t { all_reduce, reduce, broadcast, all_gather, reduce_scatter };

struct Call {
  Kind kind{};
  std::size_t count = 0;
  int dtype = 0, root = 0;
  const void* from = nullptr;
  void* to = nullptr;

  bool same_for_all(const Call& other) const {
    return kind == other.kind && count == other.count && dtype == other.dtype && root == other.root;
  }
};

// All ranks' calls of one group, in the order of the ranks.
struct Meeting {
  std::vector<std::vector<Call>> of_rank;
  int arrived = 0;
};

// What the ranks of a communicator share.
struct Shared {
  std::mutex mutex;
  std::condition_variable all_here;
  int num_ranks = 0, here = 0;
  std::map<std::int64_t, std::shared_ptr<Meeting>> meetings;  // by number
};

std::size_t bytes_of(int dtype) {
  return dtype == kNcclInt8 ? 1 : dtype == kNcclBfloat16 ? 2 : dtype == kNcclFloat64 ? 8 : 4;
}

double read(const void* data, int dtype, std::size_t at) {
  switch (dtype) {
    case kNcclFloat32:
      return static_cast<const float*>(data)[at];
    case kNcclFloat64:
      return static_cast<const double*>(data)[at];
    case kNcclBfloat16:
      return static_cast<float>(static_cast<const Bf16*>(data)[at]);
    default:
      return static_cast<const std::int32_t*>(data)[at];
  }
}
void write(void* data, int dtype, std::size_t at, double value) {
  switch (dtype) {
    case kNcclFloat32:
      static_cast<float*>(data)[at] = static_cast<float>(value);
      return;
    case kNcclFloat64:
      static_cast<double*>(data)[at] = value;
      return;
    case kNcclBfloat16:
      static_cast<Bf16*>(data)[at] = Bf16(static_cast<float>(value));
      return;
    default:
      static_cast<std::int32_t*>(data)[at] = static_cast<std::int32_t>(value);
  }
}

// A call of every rank. What the ranks write may lie on what they read.
void run(const std::vector<Call>& calls) {
  const Call& call = calls.front();
  const std::size_t bytes = call.count * bytes_of(call.dtype), ranks = calls.size();
  for (const Call& other : calls)
    TS_CHECK(call.same_for_all(other), "emulated NCCL: ranks ask for different things");
  std::vector<std::byte> result;
  if (call.kind == Kind::broadcast) {
    const auto* const from = static_cast<const std::byte*>(calls[static_cast<std::size_t>(call.root)].from);
    result.assign(from, from + bytes);
  } else if (call.kind == Kind::all_gather) {
    for (const Call& part : calls) {
      const auto* const from = static_cast<const std::byte*>(part.from);
      result.insert(result.end(), from, from + bytes);
    }
  } else {
    const std::size_t count = call.kind == Kind::reduce_scatter ? call.count * ranks : call.count;
    result.resize(count * bytes_of(call.dtype));
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (const Call& part : calls) {
        sum += read(part.from, call.dtype, i);
        if (call.dtype != kNcclFloat64) sum = static_cast<float>(sum);
      }
      write(result.data(), call.dtype, i, sum);
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (call.kind == Kind::reduce && static_cast<int>(rank) != call.root) continue;
    const std::size_t first = call.kind == Kind::reduce_scatter ? rank * bytes : 0;
    const std::size_t size = call.kind == Kind::reduce_scatter ? bytes : result.size();
    if (size > 0) std::memcpy(calls[rank].to, result.data() + first, size);
  }
}

void run(const Meeting& meeting) {
  for (std::size_t i = 0; i < meeting.of_rank.front().size(); ++i) {
    std::vector<Call> calls;
    for (const std::vector<Call>& all : meeting.of_rank) {
      TS_CHECK(all.size() == meeting.of_rank.front().size(), "emulated NCCL: ranks ask for different groups");
      calls.push_back(all[i]);
    }
    run(calls);
  }
}

}  // namespace
}  // namespace tessera

struct ncclComm {
  std::shared_ptr<tessera::Shared> shared;
  int rank = 0;
  std::int64_t meetings = 0;
};

namespace tessera {
namespace {

thread_local bool t_grouped = false;
thread_local std::vector<Call> t_group;
thread_local ncclComm* t_comm = nullptr;  // of the open group
thread_local DeviceStream t_stream = nullptr;

// Two steps of the stream: the rank is here; all are. The last to come has done the work.
void meet(ncclComm& comm, std::vector<Call> calls, DeviceStream stream) {
  const std::lock_guard lock(comm.shared->mutex);
  std::shared_ptr<Meeting>& meeting = comm.shared->meetings[comm.meetings++];
  if (!meeting) {
    meeting = std::make_shared<Meeting>();
    meeting->of_rank.resize(static_cast<std::size_t>(comm.shared->num_ranks));
  }
  const cudaError_t given = emulated::enqueue(stream, [meeting, rank = comm.rank, calls = std::move(calls)] {
    meeting->of_rank[static_cast<std::size_t>(rank)] = calls;
    if (++meeting->arrived == std::ssize(meeting->of_rank)) run(*meeting);
  });
  const cudaError_t waits = emulated::enqueue(
      stream, [] {}, [meeting] { return meeting->arrived == std::ssize(meeting->of_rank); });
  TS_CHECK(given == cudaSuccess && waits == cudaSuccess, "emulated NCCL: its stream takes no work");
}

int call(ncclComm* comm, Call call, DeviceStream stream) {
  if (call.root < 0 || call.root >= comm->shared->num_ranks) return kInvalidArgument;
  TS_CHECK(t_grouped && (t_comm == nullptr || t_comm == comm),
           "emulated NCCL: a call outside of a group of its own");
  t_comm = comm;
  t_stream = stream;
  t_group.push_back(call);
  return kNcclSuccess;
}

// Other reductions nobody asks for.
int sum(ncclComm* comm, int reduction, const Call& what, DeviceStream stream) {
  return reduction == kNcclSum ? call(comm, what, stream) : kInvalidArgument;
}

int end_group() {
  if (t_comm != nullptr) meet(*t_comm, std::move(t_group), t_stream);
  t_group.clear();
  t_grouped = false;
  t_comm = nullptr;
  return kNcclSuccess;
}

// By the number in an id.
std::shared_ptr<Shared> shared_of(std::int64_t number, int num_ranks) {
  static std::mutex mutex;
  static std::map<std::int64_t, std::weak_ptr<Shared>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Shared> shared = all[number].lock();
  if (!shared) {
    shared = std::make_shared<Shared>();
    shared->num_ranks = num_ranks;
    all[number] = shared;
  }
  return shared;
}

int init_rank(ncclComm** comm, int num_ranks, NcclId id, int rank) {
  std::int64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const std::shared_ptr<Shared> shared = shared_of(number, num_ranks);
  std::unique_lock lock(shared->mutex);
  if (++shared->here == num_ranks) shared->all_here.notify_all();
  const bool all =
      shared->all_here.wait_for(lock, std::chrono::seconds(120), [&] { return shared->here == num_ranks; });
  TS_CHECK(all, "emulated NCCL: {} of {} ranks have come", shared->here, num_ranks);
  *comm = new ncclComm{shared, rank};
  return kNcclSuccess;
}

int destroy(ncclComm* comm) {
  delete comm;
  return kNcclSuccess;
}

}  // namespace

std::optional<NcclLibrary> load_nccl() {
  NcclLibrary nccl;
  nccl.get_version = [](int* version) { return *version = 99999, kNcclSuccess; };
  nccl.get_unique_id = [](NcclId* id) {
    static std::mutex mutex;
    static std::int64_t last = 0;
    const std::lock_guard lock(mutex);
    ++last;
    std::memcpy(id->internal, &last, sizeof last);
    return kNcclSuccess;
  };
  nccl.comm_init_rank = init_rank;
  nccl.comm_destroy = destroy;
  nccl.comm_abort = destroy;
  nccl.comm_get_async_error = [](ncclComm*, int* result) { return *result = kNcclSuccess; };
  nccl.get_error_string = [](int) { return "invalid argument"; };
  nccl.get_last_error = [](ncclComm*) { return ""; };
  nccl.group_start = [] { return t_grouped = true, kNcclSuccess; };
  nccl.group_end = end_group;
  nccl.all_reduce = [](const void* from, void* to, std::size_t count, int dtype, int reduction,
                       ncclComm* comm, DeviceStream stream) {
    return sum(comm, reduction, {Kind::all_reduce, count, dtype, 0, from, to}, stream);
  };
  nccl.reduce = [](const void* from, void* to, std::size_t count, int dtype, int reduction, int root,
                   ncclComm* comm, DeviceStream stream) {
    return sum(comm, reduction, {Kind::reduce, count, dtype, root, from, to}, stream);
  };
  nccl.broadcast = [](const void* from, void* to, std::size_t count, int dtype, int root, ncclComm* comm,
                      DeviceStream stream) {
    return call(comm, {Kind::broadcast, count, dtype, root, from, to}, stream);
  };
  nccl.all_gather = [](const void* from, void* to, std::size_t count, int dtype, ncclComm* comm,
                       DeviceStream stream) {
    return call(comm, {Kind::all_gather, count, dtype, 0, from, to}, stream);
  };
  nccl.reduce_scatter = [](const void* from, void* to, std::size_t count, int dtype, int reduction,
                           ncclComm* comm, DeviceStream stream) {
    return sum(comm, reduction, {Kind::reduce_scatter, count, dtype, 0, from, to}, stream);
  };
  return nccl;
}

}  // namespace tessera
