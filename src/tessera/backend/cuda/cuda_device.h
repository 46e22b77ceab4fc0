// An NVIDIA GPU as a device: one stream, kernels in this folder, matrix products through cuBLASLt.
//
// Made by train/from_config for `device: cuda`. In a build without CUDA, and on a machine without a GPU,
// make_cuda_device throws an Error that says so; nothing else of the program needs CUDA.
#pragma once

#include <memory>

#include "tessera/runtime/device.h"

namespace tessera {

// GPU `ordinal` of this machine. `host` runs the collectives, on copies in host memory: several ranks may
// then share one GPU, whatever the communicator.
std::unique_ptr<Device> make_cuda_device(int ordinal, std::unique_ptr<Device> host);

}  // namespace tessera
