// PeerCommunicator: collectives of ranks that are threads of this process and whose GPUs read each other's
// memory, or are one and the same. Made by a PeerLink (rank_link.h).
//
// In a call the ranks' threads meet twice, and nobody waits for a GPU: first they show each other where their
// data lies, when every stream is made to wait for the moment at which the others' data is ready; then, with
// all work given, every stream is made to wait for the others' work, which reads and writes this rank's
// memory. The sums have the bits of the host's communicators.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/backend/cuda/cuda_stream.h"
#include "tessera/comm/device_communicator.h"

namespace tessera::cuda {

class PeerCommunicator final : public DeviceCommunicator {
 public:
  explicit PeerCommunicator(Communicator& group);

  void all_reduce(std::span<const DeviceTensor> tensors, Reduction reduction, DeviceStream stream) override;
  void all_gather(const void* part, void* whole, Strips strips, DType dtype, DeviceStream stream) override;
  void reduce_scatter(const void* whole, void* part, Strips strips, DType dtype, Reduction reduction,
                      DeviceStream stream) override;
  void all_gather_ranges(std::span<const DeviceTensor> tensors, DeviceStream stream) override;
  void reduce_scatter_ranges(std::span<const DeviceTensor> tensors, Reduction reduction,
                             DeviceStream stream) override;
  void broadcast(void* data, std::int64_t bytes, int root, DeviceStream stream) override;

 private:
  struct Moments {
    Event ready, done;
    std::atomic<std::uint32_t> calls = 0;  // whose work it has given; four bytes, as the kernel waits for
  };

  void show(const void* data) { shown_.assign(1, data); }
  void show(std::span<const DeviceTensor> tensors);
  // Calls work() between the two meetings; shown_ is what this rank shows.
  void together(DeviceStream stream, const std::function<void()>& work);
  // What `rank` shows in place `index`, from `offset` bytes on; between the meetings.
  std::byte* seen(int rank, std::size_t index = 0, std::int64_t offset = 0) const;

  Communicator& host_;
  // Shared: a rank that fails between the meetings takes nothing away from those that still wait.
  std::vector<std::shared_ptr<Moments>> moments_;  // by rank
  std::vector<const void*> shown_, all_shown_;
};

}  // namespace tessera::cuda
