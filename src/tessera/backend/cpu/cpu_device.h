// The CPU as a device: threads of its own, kernels in this folder.
#pragma once

#include <memory>

#include "tessera/runtime/device.h"

namespace tessera {

std::unique_ptr<Device> make_cpu_device(int num_threads);

}  // namespace tessera
