// A stream's work noted as a CUDA graph and run as one. Used by the CUDA device for programs and parts of
// them.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "tessera/runtime/device.h"

namespace tessera::cuda {

void begin_capture(cudaStream_t stream);
// `before_run`: what the stream has to be given before the graph, and on which GPU.
std::unique_ptr<CapturedWork> end_capture(cudaStream_t stream, std::function<void()> before_run);

}  // namespace tessera::cuda
