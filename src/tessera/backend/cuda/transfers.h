// Transfers: copies between host memory and one GPU, in the order of its stream. Owned by the CUDA device;
// its kernels that go through the host (collectives, the loss of a cut vocabulary) use it too.
//
// Host memory is copied through pinned buffers in turn. An upload returns when it has filled its last buffer,
// so the host runs ahead of the GPU, by as many copies as there are buffers; a download is complete on
// return. Copies of a few bytes that can wait (losses) land in pinned words, and in their places at finish().
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace tessera::cuda {

class Transfers {
 public:
  explicit Transfers(cudaStream_t stream);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void upload(std::byte* to, std::span<const std::byte> from);
  void download(std::span<std::byte> to, const std::byte* from);
  void download_later(std::span<std::byte> to, const std::byte* from);
  void finish();  // waits for the stream

  // Host memory of at least `num_bytes`, the same at every call: it grows and never shrinks.
  std::byte* scratch(std::size_t num_bytes);

 private:
  struct Buffer {
    std::byte* data = nullptr;   // pinned
    cudaEvent_t done = nullptr;  // the last copy from or to it
  };

  struct LateDownload {
    std::span<std::byte> to;
    std::size_t at;  // in late_words_
  };
  const Buffer& next_buffer();

  cudaStream_t stream_;
  std::array<Buffer, 16> buffers_;
  std::size_t turn_ = 0;
  std::byte* late_words_ = nullptr;  // pinned
  std::vector<LateDownload> late_;
  std::vector<std::byte> scratch_;
};

}  // namespace tessera::cuda
