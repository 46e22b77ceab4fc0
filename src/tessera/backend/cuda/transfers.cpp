#include "tessera/backend/cuda/transfers.h"

#include <algorithm>
#include <cstring>

#include "tessera/backend/cuda/cuda_call.h"

namespace tessera::cuda {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;

}  // namespace

Transfers::Transfers(cudaStream_t stream) : stream_(stream) {
  for (Buffer& buffer : buffers_) {
    void* data = nullptr;
    check_cuda(cudaMallocHost(&data, kBufferBytes), "allocate pinned memory");
    buffer.data = static_cast<std::byte*>(data);
    check_cuda(cudaEventCreateWithFlags(&buffer.done, cudaEventDisableTiming), "create an event");
  }
}

Transfers::~Transfers() {
  for (const Buffer& buffer : buffers_) {
    cudaEventDestroy(buffer.done);
    cudaFreeHost(buffer.data);
  }
}

void Transfers::upload(std::byte* to, std::span<const std::byte> from) {
  std::size_t turn = 0;
  for (std::size_t at = 0; at < from.size(); at += kBufferBytes, turn ^= 1) {
    const std::size_t count = std::min(kBufferBytes, from.size() - at);
    const Buffer& buffer = buffers_[turn];
    check_cuda(cudaEventSynchronize(buffer.done), "wait for a copy");
    std::memcpy(buffer.data, from.data() + at, count);
    check_cuda(cudaMemcpyAsync(to + at, buffer.data, count, cudaMemcpyHostToDevice, stream_),
               "copy to the GPU");
    check_cuda(cudaEventRecord(buffer.done, stream_), "record a copy");
  }
  check_cuda(cudaStreamSynchronize(stream_), "copy to the GPU");
}

void Transfers::download(std::span<std::byte> to, const std::byte* from) {
  // Copy number i is started before the host empties the buffer of number i - 1.
  const std::size_t num_copies = (to.size() + kBufferBytes - 1) / kBufferBytes;
  const auto count_of = [&](std::size_t copy) {
    return std::min(kBufferBytes, to.size() - copy * kBufferBytes);
  };
  for (std::size_t copy = 0; copy <= num_copies; ++copy) {
    if (copy < num_copies) {
      const Buffer& buffer = buffers_[copy % 2];
      check_cuda(cudaMemcpyAsync(buffer.data, from + copy * kBufferBytes, count_of(copy),
                                 cudaMemcpyDeviceToHost, stream_),
                 "copy from the GPU");
      check_cuda(cudaEventRecord(buffer.done, stream_), "record a copy");
    }
    if (copy > 0) {
      const Buffer& buffer = buffers_[(copy - 1) % 2];
      check_cuda(cudaEventSynchronize(buffer.done), "copy from the GPU");
      std::memcpy(to.data() + (copy - 1) * kBufferBytes, buffer.data, count_of(copy - 1));
    }
  }
}

std::byte* Transfers::scratch(std::size_t num_bytes) {
  if (scratch_.size() < num_bytes) scratch_.resize(num_bytes);
  return scratch_.data();
}

}  // namespace tessera::cuda
