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
    case DType::i16:  // NCCL has none; halves of numbers are gathered and never added
      return kNcclBfloat16;
    case DType::f64:
      return kNcclFloat64;
    case DType::i32:
      break;
  }
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

void NcclCommunicator::check(int result, const char* name) {
  int later = kNcclSuccess;
  if (result == kNcclSuccess && comm_ != nullptr) {
    result = nccl_.comm_get_async_error(comm_, &later);
    if (result == kNcclSuccess && later != kNcclInProgress) result = later;
  }
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
  check(nccl_.group_start(), name);
  const int result = calls();
  const int end = nccl_.group_end();  // also after a failure: it stands for all of the group
  check(result != kNcclSuccess ? result : end, name);
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

// Equal ranges are an all_gather; others a broadcast of each rank's own.
void NcclCommunicator::all_gather_ranges(std::span<const DeviceTensor> tensors, DeviceStream stream) {
  grouped("all_gather_ranges", [&] {
    for (const auto& [data, count, dtype] : tensors) {
      const bool even = count % size() == 0;
      for (int root = 0; root < size(); ++root) {
        if (even && root != rank()) continue;
        const TensorRange range = range_of(count, size(), root);
        std::byte* const place = at(data, range.begin, dtype);
        const int result =
            even ? nccl_.all_gather(place, data, size_of(range.count), nccl_type(dtype), comm_, stream)
                 : nccl_.broadcast(place, place, size_of(range.count), nccl_type(dtype), root, comm_, stream);
        if (result != kNcclSuccess) return result;
      }
    }
    return kNcclSuccess;
  });
}

// Equal ranges are a reduce_scatter; others a reduction to each rank of its own.
void NcclCommunicator::reduce_scatter_ranges(std::span<const DeviceTensor> tensors, Reduction reduction,
                                             DeviceStream stream) {
  grouped("reduce_scatter_ranges", [&] {
    for (const auto& [data, count, dtype] : tensors) {
      const bool even = count % size() == 0;
      for (int root = 0; root < size(); ++root) {
        if (even && root != rank()) continue;
        const TensorRange range = range_of(count, size(), root);
        std::byte* const place = at(data, range.begin, dtype);
        const int result = even ? nccl_.reduce_scatter(data, place, size_of(range.count), nccl_type(dtype),
                                                       nccl_reduction(reduction), comm_, stream)
                                : nccl_.reduce(place, place, size_of(range.count), nccl_type(dtype),
                                               nccl_reduction(reduction), root, comm_, stream);
        if (result != kNcclSuccess) return result;
      }
    }
    return kNcclSuccess;
  });
}

void NcclCommunicator::broadcast(void* data, std::int64_t bytes, int root, DeviceStream stream) {
  grouped("broadcast",
          [&] { return nccl_.broadcast(data, data, size_of(bytes), kNcclInt8, root, comm_, stream); });
}

}  // namespace tessera
