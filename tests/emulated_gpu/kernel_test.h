// What tests of kernels on the emulated GPU have: a stream, memory, and launches of lambdas.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "emulated_gpu/stream.h"

namespace emulated {

class KernelTest : public testing::Test {
 protected:
  KernelTest() { cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); }
  ~KernelTest() override {
    cudaStreamDestroy(stream);
    cudaGetLastError();
  }

  template <class T>
  T* make(std::size_t count) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, count * sizeof(T)), cudaSuccess);
    memory.emplace_back(data, [](void* d) { cudaFree(d); });
    return static_cast<T*>(data);
  }
  template <class... Args>
  void run(unsigned blocks, unsigned threads, std::size_t shared_bytes, Args... args) {
    Launch(blocks, threads, shared_bytes, stream).of(args...);
  }
  void finish() { ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess); }

  cudaStream_t stream = nullptr;
  std::vector<std::shared_ptr<void>> memory;
};

}  // namespace emulated
