// NcclCommunicator: collectives of ranks with a GPU each, by NCCL. Made by backend/cuda's rank link for each
// group of the mesh: rank 0 of the group makes NCCL's id and the group's host communicator, MPI's say,
// carries it to the others.
//
// NCCL adds in an order of its own, which depends on its algorithm, the topology and the size: other bits
// than the other communicators', but the same from run to run on the same machines with the same settings of
// NCCL.
#pragma once

#include <string>

#include "tessera/comm/nccl/nccl_library.h"

namespace tessera {

std::string nccl_version_text(const NcclLibrary& nccl);  // "NCCL 2.28.3"

class NcclCommunicator final : public DeviceCommunicator {
 public:
  // Collective over the group. This rank's GPU is the current one.
  NcclCommunicator(Communicator& group, const NcclLibrary& nccl);
  ~NcclCommunicator() override;

  void all_reduce(std::span<const DeviceTensor> tensors, Reduction reduction, DeviceStream stream) override;
  // A call per strip, together.
  void all_gather(const void* part, void* whole, Strips strips, DType dtype, DeviceStream stream) override;
  void reduce_scatter(const void* whole, void* part, Strips strips, DType dtype, Reduction reduction,
                      DeviceStream stream) override;
  void all_gather_ranges(std::span<const DeviceTensor> tensors, DeviceStream stream) override;
  void reduce_scatter_ranges(std::span<const DeviceTensor> tensors, Reduction reduction,
                             DeviceStream stream) override;
  void broadcast(void* data, std::int64_t bytes, int root, DeviceStream stream) override;

 private:
  // Gives the calls that calls() makes as one. Calls return NCCL's result.
  template <class Calls>
  void grouped(const char* name, Calls calls);
  // For every tensor: even(tensor, this rank's range, its size) if it is cut into equal ranges, else
  // uneven(tensor, a range, its size, its rank) for each.
  template <class Even, class Uneven>
  void on_ranges(const char* name, std::span<const DeviceTensor> tensors, Even even, Uneven uneven);
  int failure_of_threads() const;  // NCCL's own; or success
  // Throws, naming the rank and the call, unless the result is success. The communicator is aborted first,
  // which ends the other ranks' waiting.
  void check(int result, const char* name);

  const NcclLibrary nccl_;
  ncclComm* comm_ = nullptr;
  int exceptions_;  // in flight when this was made
};

}  // namespace tessera
