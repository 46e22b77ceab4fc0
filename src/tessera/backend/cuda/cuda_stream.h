// Streams and events of CUDA as objects: made on the current GPU, gone with the object.
#pragma once

#include "tessera/backend/cuda/cuda_call.h"

namespace tessera::cuda {

class Stream {
 public:
  Stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A moment in a stream, for other streams to wait for; it measures no time.
class Event {
 public:
  Event() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "create an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // The work that the stream has been given so far.
  void record(cudaStream_t stream) const { check_cuda(cudaEventRecord(event_, stream), "record an event"); }
  // What the stream is given from now on waits for the moment recorded last; if none was, for nothing.
  void hold(cudaStream_t stream) const {
    check_cuda(cudaStreamWaitEvent(stream, event_, 0), "wait for an event");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace tessera::cuda
