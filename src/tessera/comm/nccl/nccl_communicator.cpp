#include "tessera/comm/nccl/nccl_communicator.h"

#include <exception>
#include <utility>

namespace tessera {
namespace {

int nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kNcclFloat32;
    case DType::bf16:
      return kNcclBfloat16;
    case DType::f64:
      return kNcclFloat64;
    case DType::i32:
      return kNcclInt32;
    case DType::i16:
      break;
  }
  TS_ASSERT(!"a type that ranks exchange");
  return kNcclInt32;
}

// No node of a plan takes a maximum, and NCCL's would lose NaNs.
int nccl_reduction(Reduction reduction) {
  TS_ASSERT(reduction == Reduction::sum);
  return kNcclSum;
}

std::byte* at(void* data, std::int64_t elems, DType dtype) {
  return static_cast<std::byte*>(data) + elems * dtype_bytes(dtype);
}
const std::byte* at(const void* data, std::int64_t elems, DType dtype) {
  return static_cast<const std::byte*>(data) + elems * dtype_bytes(dtype);
}

std::size_t size_of(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

}  // namespace

std::string nccl_version_text(const NcclLibrary& nccl) {
  int version = 0;
  TS_CHECK(nccl.get_version(&version) == kNcclSuccess, "libnccl.so.2 does not say its version");
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclCommunicator::NcclCommunicator(Communicator& group, const NcclLibrary& nccl)
    : DeviceCommunicator(group.rank(), group.size()), nccl_(nccl), exceptions_(std::uncaught_exceptions()) {
  NcclId id{};
  if (rank() == 0) check(nccl_.get_unique_id(&id), "get_unique_id");
  group.broadcast(&id, sizeof(id), 0);
  check(nccl_.comm_init_rank(&comm_, size(), id, rank()), "comm_init_rank");
}

// Where this rank has failed, the others are not there to end in good order with.
NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    nccl_.comm_abort(comm_);
  } else {
    nccl_.comm_destroy(comm_);
  }
}

int NcclCommunicator::failure_of_threads() const {
  int failure = kNcclSuccess;
  const int result = nccl_.comm_get_async_error(comm_, &failure);
  if (result != kNcclSuccess) return result;
  return failure == kNcclInProgress ? kNcclSuccess : failure;
}

void NcclCommunicator::check(int result, const char* name) {
  if (result == kNcclSuccess) return;
  const char* const last = nccl_.get_last_error(comm_);
  const std::string message =
      fmt::format("NCCL: {} on rank {} of {}: {}{}{}", name, rank(), size(), nccl_.get_error_string(result),
                  last && *last ? ": " : "", last ? last : "");
  if (ncclComm* const comm = std::exchange(comm_, nullptr)) nccl_.comm_abort(comm);
  throw Error(message);
}

template <class Calls>
void NcclCommunicator::grouped(const char* name, Calls calls) {
  TS_CHECK(comm_ != nullptr, "NCCL: {} on rank {} of {}: an earlier call has failed", name, rank(), size());
  check(failure_of_threads(), name);  // not in the group: an open one would be the thread's next calls', too
  check(nccl_.group_start(), name);
  const int result = calls();
  const int end = nccl_.group_end();  // also after a failure: it stands for all of the group
  check(result != kNcclSuccess ? result : end, name);
  check(failure_of_threads(), name);
}

void NcclCommunicator::all_reduce(std::span<const DeviceTensor> tensors, Reduction reduction,
                                  DeviceStream stream) {
  grouped("all_reduce", [&] {
    for (const auto& [data, count, dtype] : tensors) {
      const int result = nccl_.all_reduce(data, data, size_of(count), nccl_type(dtype),
                                          nccl_reduction(reduction), comm_, stream);
      if (result != kNcclSuccess) return result;
    }
    return kNcclSuccess;
  });
}

void NcclCommunicator::all_gather(const void* part, void* whole, Strips strips, DType dtype,
                                  DeviceStream stream) {
  grouped("all_gather", [&] {
    for (std::int64_t strip = 0; strip < strips.outer; ++strip) {
      const int result = nccl_.all_gather(at(part, strip * strips.inner, dtype),
                                          at(whole, strip * size() * strips.inner, dtype),
                                          size_of(strips.inner), nccl_type(dtype), comm_, stream);
      if (result != kNcclSuccess) return result;
    }
    return kNcclSuccess;
  });
}

void NcclCommunicator::reduce_scatter(const void* whole, void* part, Strips strips, DType dtype,
                                      Reduction reduction, DeviceStream stream) {
  grouped("reduce_scatter", [&] {
    for (std::int64_t strip = 0; strip < strips.outer; ++strip) {
      const int result = nccl_.reduce_scatter(at(whole, strip * size() * strips.inner, dtype),
                                              at(part, strip * strips.inner, dtype), size_of(strips.inner),
                                              nccl_type(dtype), nccl_reduction(reduction), comm_, stream);
      if (result != kNcclSuccess) return result;
    }
    return kNcclSuccess;
  });
}

template <class Even, class Uneven>
void NcclCommunicator::on_ranges(const char* name, std::span<const DeviceTensor> tensors, Even even,
                                 Uneven uneven) {
  grouped(name, [&] {
    int result = kNcclSuccess;
    for (const DeviceTensor& tensor : tensors) {
      const auto place = [&](const TensorRange& range) { return at(tensor.data, range.begin, tensor.dtype); };
      if (tensor.count % size() == 0) {
        const TensorRange own = range_of(tensor.count, size(), rank());
        result = even(tensor, place(own), size_of(own.count));
      }
      for (int root = 0; tensor.count % size() != 0 && root < size() && result == kNcclSuccess; ++root) {
        const TensorRange range = range_of(tensor.count, size(), root);
        result = uneven(tensor, place(range), size_of(range.count), root);
      }
      if (result != kNcclSuccess) break;
    }
    return result;
  });
}

// Equal ranges are an all_gather; others a broadcast of each rank's own.
void NcclCommunicator::all_gather_ranges(std::span<const DeviceTensor> tensors, DeviceStream stream) {
  on_ranges(
      "all_gather_ranges", tensors,
      [&](const DeviceTensor& tensor, std::byte* own, std::size_t count) {
        return nccl_.all_gather(own, tensor.data, count, nccl_type(tensor.dtype), comm_, stream);
      },
      [&](const DeviceTensor& tensor, std::byte* place, std::size_t count, int root) {
        return nccl_.broadcast(place, place, count, nccl_type(tensor.dtype), root, comm_, stream);
      });
}

// Equal ranges are a reduce_scatter; others a reduction to each rank of its own.
void NcclCommunicator::reduce_scatter_ranges(std::span<const DeviceTensor> tensors, Reduction reduction,
                                             DeviceStream stream) {
  const int op = nccl_reduction(reduction);
  on_ranges(
      "reduce_scatter_ranges", tensors,
      [&](const DeviceTensor& tensor, std::byte* own, std::size_t count) {
        return nccl_.reduce_scatter(tensor.data, own, count, nccl_type(tensor.dtype), op, comm_, stream);
      },
      [&](const DeviceTensor& tensor, std::byte* place, std::size_t count, int root) {
        return nccl_.reduce(place, place, count, nccl_type(tensor.dtype), op, root, comm_, stream);
      });
}

void NcclCommunicator::broadcast(void* data, std::int64_t bytes, int root, DeviceStream stream) {
  grouped("broadcast",
          [&] { return nccl_.broadcast(data, data, size_of(bytes), kNcclInt8, root, comm_, stream); });
}

}  // namespace tessera
