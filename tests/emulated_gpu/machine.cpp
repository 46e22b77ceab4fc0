#include "emulated_gpu/machine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace emulated {

int gpus_of_environment() {
  const char* const text = std::getenv("EMULATED_GPUS");
  return text == nullptr ? 1 : std::atoi(text);
}

// Never destroyed: streams and events may be, by whatever ends after it.
Machine& machine() {
  static auto* const made = new Machine;
  return *made;
}

cudaError_t said(cudaError_t status) {
  if (status != cudaSuccess) t_last_error = status;
  return status;
}

void forget_if_done(CUstream_st& stream) {
  if (!stream.destroyed || !stream.steps.empty()) return;
  std::erase(machine().streams, &stream);
  delete &stream;
}

bool go_on() {
  Machine& m = machine();
  std::vector<CUstream_st*> able;
  for (CUstream_st* stream : m.streams) {
    if (!stream->steps.empty() && (!stream->steps.front().may_begin || stream->steps.front().may_begin()))
      able.push_back(stream);
  }
  if (able.empty()) return false;
  CUstream_st& stream = *able[m.random() % able.size()];
  const Step step = std::move(stream.steps.front());
  stream.steps.pop_front();
  step.work();
  m.went_on = std::chrono::steady_clock::now();
  forget_if_done(stream);
  return true;
}

void go_on_until(const std::function<bool()>& condition) {
  constexpr auto kLongest = std::chrono::seconds(120);
  const auto began = std::chrono::steady_clock::now();
  for (;;) {
    {
      const std::lock_guard lock(machine().mutex);
      if (condition()) return;
      if (go_on()) continue;
      if (std::chrono::steady_clock::now() - std::max(began, machine().went_on) > kLongest) {
        std::fprintf(stderr, "emulated GPU: streams wait for ever\n");
        std::abort();
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work, std::function<bool()> may_begin) {
  const std::lock_guard lock(machine().mutex);
  if (stream->captured_to != nullptr) {
    if (may_begin) return said(cudaErrorStreamCaptureUnsupported);
    stream->captured_to->work.push_back(std::move(work));
  } else {
    stream->steps.push_back({std::move(work), std::move(may_begin)});
  }
  return cudaSuccess;
}

void launch(const Grid& grid, cudaStream_t stream, std::function<void()> kernel) {
  const unsigned threads = grid.threads.x * grid.threads.y * grid.threads.z;
  if (threads == 0 || threads > kMostThreads || grid.threads.z > 64 || grid.blocks.x == 0 ||
      grid.blocks.y == 0 || grid.blocks.z == 0 || grid.blocks.x > 0x7fffffff || grid.blocks.y > 0xffff ||
      grid.blocks.z > 0xffff || grid.shared_bytes > kMostSharedBytes) {
    said(cudaErrorInvalidConfiguration);
    return;
  }
  if (stream->gpu != t_gpu) {
    said(cudaErrorInvalidResourceHandle);
    return;
  }
  enqueue(stream, [grid, kernel = std::move(kernel)] { run_grid(grid, kernel); });
}

void set_num_gpus(int count, bool read_each_other) {
  machine().num_gpus = count;
  machine().gpus_read_each_other = read_each_other;
}

Counts counts() {
  const std::lock_guard lock(machine().mutex);
  return machine().counts;
}

}  // namespace emulated
