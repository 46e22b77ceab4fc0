#include "tessera/backend/cuda/transfers.h"

#include <algorithm>
#include <cstring>

#include "tessera/backend/cuda/cuda_call.h"
#include "tessera/backend/cuda/limits.h"

namespace tessera::cuda {
Transfers::Transfers(cudaStream_t stream) : stream_(stream) {
  const auto pinned = [](std::size_t num_bytes) {
    void* data = nullptr;
    check_cuda(cudaMallocHost(&data, num_bytes), "allocate pinned memory");
    return static_cast<std::byte*>(data);
  };
  late_words_ = pinned(kLateBytes);
  late_.reserve(kLateBytes / sizeof(double));
  for (Buffer& buffer : buffers_) {
    buffer.data = pinned(kTransferBytes);
    check_cuda(cudaEventCreateWithFlags(&buffer.done, cudaEventDisableTiming), "create an event");
  }
}

Transfers::~Transfers() {
  for (const Buffer& buffer : buffers_) {
    cudaEventDestroy(buffer.done);
    cudaFreeHost(buffer.data);
  }
  cudaFreeHost(late_words_);
}

const Transfers::Buffer& Transfers::next_buffer() {
  const Buffer& buffer = buffers_[turn_];
  turn_ = (turn_ + 1) % buffers_.size();
  check_cuda(cudaEventSynchronize(buffer.done), "wait for a copy");
  return buffer;
}

void Transfers::upload(std::byte* to, std::span<const std::byte> from) {
  for (std::size_t at = 0; at < from.size(); at += kTransferBytes) {
    const std::size_t count = std::min(kTransferBytes, from.size() - at);
    const Buffer& buffer = next_buffer();
    std::memcpy(buffer.data, from.data() + at, count);
    check_cuda(cudaMemcpyAsync(to + at, buffer.data, count, cudaMemcpyHostToDevice, stream_),
               "copy to the GPU");
    check_cuda(cudaEventRecord(buffer.done, stream_), "record a copy");
  }
}

void Transfers::download(std::span<std::byte> to, const std::byte* from) {
  // Copy number i is started before the host empties the buffer of number i - 1.
  const std::size_t num_copies = (to.size() + kTransferBytes - 1) / kTransferBytes;
  const auto count_of = [&](std::size_t copy) {
    return std::min(kTransferBytes, to.size() - copy * kTransferBytes);
  };
  const Buffer* before = nullptr;
  for (std::size_t copy = 0; copy <= num_copies; ++copy) {
    const Buffer* now = nullptr;
    if (copy < num_copies) {
      now = &next_buffer();
      check_cuda(cudaMemcpyAsync(now->data, from + copy * kTransferBytes, count_of(copy),
                                 cudaMemcpyDeviceToHost, stream_),
                 "copy from the GPU");
      check_cuda(cudaEventRecord(now->done, stream_), "record a copy");
    }
    if (before != nullptr) {
      check_cuda(cudaEventSynchronize(before->done), "copy from the GPU");
      std::memcpy(to.data() + (copy - 1) * kTransferBytes, before->data, count_of(copy - 1));
    }
    before = now;
  }
}

void Transfers::download_later(std::span<std::byte> to, const std::byte* from) {
  const std::size_t at = late_.size() * sizeof(double);
  if (to.size() > sizeof(double) || at + sizeof(double) > kLateBytes) return download(to, from);
  late_.push_back({to, at});
  check_cuda(cudaMemcpyAsync(late_words_ + at, from, to.size(), cudaMemcpyDeviceToHost, stream_),
             "copy from the GPU");
}

void Transfers::finish() {
  check_cuda(cudaStreamSynchronize(stream_), "wait for the GPU");
  for (const LateDownload& late : late_) std::memcpy(late.to.data(), late_words_ + late.at, late.to.size());
  late_.clear();
}

std::byte* Transfers::scratch(std::size_t num_bytes) {
  if (scratch_.size() < num_bytes) scratch_.resize(num_bytes);
  return scratch_.data();
}

}  // namespace tessera::cuda
