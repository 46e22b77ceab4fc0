// DeviceCommunicator: how ranks talk without the host: the collectives of a group on the memory of its ranks'
// devices. A call gives the work to a stream of the caller's device and returns; what it reads must be ready,
// and what it writes is, in the order of that stream. Called by every rank of the group, with the same sizes
// and in the same order.
//
// Made by a DeviceLink, which a device makes once for the ranks of a run (Device::link): backend/cuda for
// ranks that are threads of one process, also on one card; comm/nccl for ranks with a GPU each. RankGroups
// keeps one beside each of its host communicators; the devices' kernels of collectives call it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tessera/comm/communicator.h"

struct CUstream_st;

namespace tessera {

using DeviceStream = CUstream_st*;  // CUDA's cudaStream_t, whose header stays where CUDA is

// One of several tensors that a call works on in place.
struct DeviceTensor {
  void* data = nullptr;
  std::int64_t count = 0;  // elements
  DType dtype = DType::f32;
};

class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  virtual void all_reduce(std::span<const DeviceTensor> tensors, Reduction reduction,
                          DeviceStream stream) = 0;

  // As a Communicator's, in place included.
  virtual void all_gather(const void* part, void* whole, Strips strips, DType dtype, DeviceStream stream) = 0;
  virtual void reduce_scatter(const void* whole, void* part, Strips strips, DType dtype, Reduction reduction,
                              DeviceStream stream) = 0;

  // In place, each tensor cut into one range per rank (range_of below). A reduce_scatter leaves anything in
  // the ranges of the others.
  virtual void all_gather_ranges(std::span<const DeviceTensor> tensors, DeviceStream stream) = 0;
  virtual void reduce_scatter_ranges(std::span<const DeviceTensor> tensors, Reduction reduction,
                                     DeviceStream stream) = 0;

  virtual void broadcast(void* data, std::int64_t bytes, int root, DeviceStream stream) = 0;

 protected:
  DeviceCommunicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

// Messages between two ranks of a group, on the memory of their devices, as a Communicator's: a send copies
// the data and never waits for its receive; those of one sender with one tag arrive in order.
class DeviceMessages {
 public:
  virtual ~DeviceMessages() = default;
  // Room for `count` messages of `bytes` on their way to rank `to` at once, so that sends allocate nothing.
  virtual void reserve(int to, std::int64_t bytes, int count) = 0;
  virtual std::int64_t reserved_bytes() const = 0;
  virtual void send(const void* data, std::int64_t bytes, int to, int tag, DeviceStream stream) = 0;
  virtual void receive(void* data, std::int64_t bytes, int from, int tag, DeviceStream stream) = 0;
};

// The way a run's ranks talk. Both calls are collective over the group, and the group outlives what they
// make. Null: this way has none, and the host carries them; of a plain DeviceLink it carries all.
class DeviceLink {
 public:
  explicit DeviceLink(std::string text) : text_(std::move(text)) {}
  virtual ~DeviceLink() = default;
  const std::string& text() const { return text_; }  // for the user: "2 ranks on 2 GPUs, by NCCL 2.28.3"
  virtual std::unique_ptr<DeviceCommunicator> connect(Communicator&) { return nullptr; }
  virtual std::unique_ptr<DeviceMessages> connect_messages(Communicator&) { return nullptr; }

 private:
  std::string text_;
};

struct TensorRange {
  std::int64_t begin = 0, count = 0;
};

// Rank's range of `count` elements: equal ones, the last may have fewer or none.
inline TensorRange range_of(std::int64_t count, int num_ranks, int rank) {
  const std::int64_t part = (count + num_ranks - 1) / num_ranks;
  const std::int64_t begin = rank * part < count ? rank * part : count;
  return {begin, begin + part < count ? part : count - begin};
}

}  // namespace tessera
