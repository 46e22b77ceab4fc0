// How the ranks of a run on GPUs talk: chosen once, from where the ranks are. Asked by the CUDA device.
//
//   threads of one process, at most 64        their GPUs' memory, also of one GPU that they share, where
//   these read
//                                             each other's
//   a GPU for each rank, and NCCL is found    NCCL; messages between ranks of one process by GPU memory. A
//   rank alone,
//                                             too, which is how the self test reaches it on one GPU
//   otherwise                                 host memory: several processes on one GPU, or no NCCL
#pragma once

#include <memory>

#include "tessera/comm/device_communicator.h"

namespace tessera::cuda {

// Collective over the world. `ordinal`: this rank's GPU, the current one.
std::unique_ptr<DeviceLink> make_rank_link(Communicator& world, int ordinal);

}  // namespace tessera::cuda
