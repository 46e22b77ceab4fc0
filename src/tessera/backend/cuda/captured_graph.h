// A stream's work noted as a CUDA graph and run as one. Used by the CUDA device for whole programs.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "tessera/runtime/device.h"

namespace tessera::cuda {

void begin_capture(cudaStream_t stream);
std::unique_ptr<CapturedProgram> end_capture(cudaStream_t stream);

}  // namespace tessera::cuda
