#include "tessera/backend/cuda/side_stream.h"

#include <chrono>
#include <thread>
#include <utility>

namespace tessera::cuda {

void SideStream::begin() {
  TS_ASSERT(!noting_);
  begun_.record(main_);
  begun_.hold(side_.get());
}

void SideStream::end(std::span<const TensorView> reads, std::span<const TensorView> writes,
                     std::span<const std::byte> scratch) {
  ended(in_flight_.start(byte_ranges(reads), byte_ranges(writes, scratch))).record(side_.get());
}

void SideStream::before(const KernelCall& call) {
  if (noting_ || !in_flight_.empty())
    before(byte_ranges(call.inputs), byte_ranges(call.outputs, call.workspace));
}

void SideStream::before(std::span<const ByteRange> reads, std::span<const ByteRange> writes) {
  if (noting_) {
    noted_.reads.insert(noted_.reads.end(), reads.begin(), reads.end());
    noted_.writes.insert(noted_.writes.end(), writes.begin(), writes.end());
    return;
  }
  wait_for(in_flight_.wait_before(reads, writes));
}

Touched SideStream::noting(const std::function<void()>& give_work) {
  noting_ = true;
  noted_ = {};
  try {
    give_work();
  } catch (...) {
    noting_ = false;
    throw;
  }
  noting_ = false;
  return std::exchange(noted_, {});
}

void SideStream::before_all() {
  wait_for(in_flight_.wait_for_all());
}

bool SideStream::finish() const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(10);
  cudaError_t status = cudaSuccess;
  while ((status = cudaStreamQuery(side_.get())) == cudaErrorNotReady) {
    cudaGetLastError();  // is remembered, and the next launch would be blamed for it
    if (Clock::now() >= end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status != cudaErrorNotReady;
}

void SideStream::wait_for(std::int64_t number) {
  TS_ASSERT(!noting_);
  if (number >= 0) ended(number).hold(main_);
}

}  // namespace tessera::cuda
