// A stream's work noted as a CUDA graph and run as one. Used by the CUDA device for programs and parts of
// them.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "tessera/runtime/device.h"

namespace tessera::cuda {

// From its making to end(), or to its end without one, the stream notes the work that it is given.
class Capture {
 public:
  explicit Capture(cudaStream_t stream);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // `before_run`: what the stream has to be given before the graph, and on which GPU.
  std::unique_ptr<CapturedWork> end(std::function<void()> before_run);

 private:
  cudaStream_t stream_;  // null once it has ended
};

}  // namespace tessera::cuda
