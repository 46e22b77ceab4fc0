// How the ranks of a run on GPUs talk: chosen once, from where the ranks are. Asked by the CUDA device.
//
//   threads of one process  memory of their GPUs, or of one that they share; up to 64 ranks, where the GPUs
//                           read each other's
//   a GPU for each rank     NCCL where it is found, pipelines' messages within a process by GPU memory; also
//                           for a rank alone, by which the self test reaches NCCL on one GPU
//   otherwise               host memory: several processes on one GPU, or no NCCL
#pragma once

#include <memory>

#include "tessera/comm/device_communicator.h"

namespace tessera::cuda {

// Collective over the world. `ordinal`: this rank's GPU, the current one.
std::unique_ptr<DeviceLink> make_rank_link(Communicator& world, int ordinal);

}  // namespace tessera::cuda
