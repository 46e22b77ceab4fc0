// The CUDA runtime of an emulated GPU: memory, streams, events, captured graphs and launches, as far as
// backend/cuda uses them. What CUDA refuses is refused.
//
// Work is not done when it is given to a stream but when somebody waits for it, and then the streams that can
// go on are served in a random order: what CUDA only may exchange is exchanged here. Several GPUs are several
// sets of streams; all use this machine's memory.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <functional>

#include "emulated_gpu/thread_block.h"

namespace emulated {

// Work of this stream, done when `may_begin` holds, if it is given; part of a graph if the stream is being
// captured.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work, std::function<bool()> may_begin = {});

// Likewise, a kernel on the current GPU's; what is wrong is the thread's last error.
void launch(const Grid& grid, cudaStream_t stream, std::function<void()> kernel);

// Before any is used. At first there are as many as the environment's EMULATED_GPUS says, or one, and kernels
// may read other GPUs' memory.
void set_num_gpus(int count, bool read_each_other = true);

// Of each GPU. Too little for the product by which a run would measure the GPU's speed (peak_flops.cpp).
inline constexpr std::int64_t kMemoryBytes = std::int64_t{415} << 20;

// Of all GPUs, since the program started.
struct Counts {
  std::int64_t allocations = 0, graph_launches = 0;
};
Counts counts();

}  // namespace emulated
