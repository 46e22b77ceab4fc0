// SideStream: the stream on which a GPU's collectives run while its main stream computes. A collective begins
// when the main stream has done what it was given before it; the main stream waits for it only where it needs
// memory that the collective uses (runtime/in_flight.h). Owned by the CUDA device; its kernels of collectives
// give it work.
//
// All collectives of a rank share the one stream, in the order of the program: ranks of a group then run them
// in the same order, and two groups never hold the GPU against each other.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "tessera/backend/cuda/cuda_stream.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/in_flight.h"

namespace tessera::cuda {

// What several pieces of work read and write.
struct Touched {
  std::vector<ByteRange> reads, writes;
};

class SideStream {
 public:
  explicit SideStream(cudaStream_t main) : main_(main) {}

  // Gives work(stream), which reads and writes what the call names.
  template <class Work>
  void run(const KernelCall& call, Work&& work) {
    run(call.inputs, call.outputs, call.workspace, work);
  }
  template <class Work>
  void run(std::span<const TensorView> reads, std::span<const TensorView> writes,
           std::span<const std::byte> scratch, Work&& work) {
    begin();
    work(side_.get());
    end(reads, writes, scratch);
  }

  // The main stream is about to work on these.
  void before(const KernelCall& call);
  void before(std::span<const ByteRange> reads, std::span<const ByteRange> writes);
  void before_all();
  // Waits for the end of all that it was given; false: not within some seconds.
  bool finish() const;

  // What give_work() gives the main stream is for later: nothing waits, and what it will touch is returned.
  Touched noting(const std::function<void()>& give_work);

 private:
  void begin();
  void end(std::span<const TensorView> reads, std::span<const TensorView> writes,
           std::span<const std::byte> scratch);
  void wait_for(std::int64_t number);
  // Events come round: one that is recorded again stands for a later moment, which is safe to wait for.
  const Event& ended(std::int64_t number) const {
    return ended_[static_cast<std::size_t>(number) % ended_.size()];
  }

  cudaStream_t main_;
  Stream side_;
  Event begun_;
  std::array<Event, 64> ended_;
  InFlight in_flight_;
  bool noting_ = false;
  Touched noted_;
};

}  // namespace tessera::cuda
