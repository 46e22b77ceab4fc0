// Transfers: copies between host memory and one GPU, complete on return. Owned by the CUDA device; its
// kernels that go through the host (collectives, the loss of a cut vocabulary) use it too.
//
// Host memory is copied through two pinned buffers in turn: the GPU reads one while the host fills the other.
// From pageable memory the driver would do the same, but with buffers of its own choice.
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

  // Host memory of at least `num_bytes`, the same at every call: it grows and never shrinks.
  std::byte* scratch(std::size_t num_bytes);

 private:
  struct Buffer {
    std::byte* data = nullptr;   // pinned
    cudaEvent_t done = nullptr;  // the last copy from or to it
  };

  cudaStream_t stream_;
  std::array<Buffer, 2> buffers_;
  std::vector<std::byte> scratch_;
};

}  // namespace tessera::cuda
