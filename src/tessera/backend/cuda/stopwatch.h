// Stopwatch: moments of a stream, by events. For the breakdown of a step by op.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "tessera/backend/cuda/cuda_call.h"

namespace tessera::cuda {

class Stopwatch {
 public:
  Stopwatch() = default;
  ~Stopwatch() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void mark(std::size_t moment, cudaStream_t stream) {
    while (events_.size() <= moment) {
      check_cuda(cudaEventCreate(&events_.emplace_back()), "create an event");
    }
    check_cuda(cudaEventRecord(events_[moment], stream), "record an event");
  }
  // Both have passed.
  double seconds_between(std::size_t from, std::size_t to) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, events_[from], events_[to]), "read an event");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace tessera::cuda
