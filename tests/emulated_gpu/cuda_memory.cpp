// CUDA's functions for memory, emulated.
#include <cuda_runtime_api.h>

#include <cstring>

#include "emulated_gpu/device_memory.h"
#include "emulated_gpu/machine.h"

namespace emulated {
namespace {

// Whether the bytes lie in one allocation.
bool is_allocated(const void* at, std::size_t bytes) {
  Machine& m = machine();
  const auto* const first = static_cast<const std::byte*>(at);
  auto found = m.allocations.upper_bound(first);
  if (found == m.allocations.begin()) return false;
  --found;
  const auto offset = static_cast<std::size_t>(first - found->first);
  return offset < found->second.bytes && bytes <= found->second.bytes - offset;
}

cudaError_t allocate(void** data, std::size_t bytes, int gpu) {
  if (t_captures > 0) return said(cudaErrorStreamCaptureUnsupported);
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  if (gpu >= 0 && static_cast<std::int64_t>(bytes) > kMemoryBytes - m.used[gpu])
    return said(cudaErrorMemoryAllocation);
  *data = take_memory(bytes);
  if (*data == nullptr) return said(cudaErrorMemoryAllocation);
  std::memset(*data, 0xff, bytes);
  m.allocations[static_cast<std::byte*>(*data)] = {bytes, gpu};
  if (gpu >= 0) m.used[gpu] += static_cast<std::int64_t>(bytes), ++m.counts.allocations;
  return cudaSuccess;
}

// Freeing waits for all work.
cudaError_t release(void* data) {
  if (data == nullptr) return cudaSuccess;
  if (t_captures > 0) return said(cudaErrorStreamCaptureUnsupported);
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const auto found = m.allocations.find(static_cast<std::byte*>(data));
  if (found == m.allocations.end()) return said(cudaErrorInvalidValue);
  while (go_on()) {
  }
  if (found->second.gpu >= 0) m.used[found->second.gpu] -= static_cast<std::int64_t>(found->second.bytes);
  give_back_memory(static_cast<std::byte*>(data), found->second.bytes);
  m.allocations.erase(found);
  return cudaSuccess;
}

// Between GPUs and pinned memory. Other memory of the host CUDA copies at once or by a detour, either of
// which takes time that nobody here means to spend.
cudaError_t copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                      std::size_t width, std::size_t rows, cudaStream_t stream) {
  if (width == 0 || rows == 0) return cudaSuccess;
  if (to_pitch < width || from_pitch < width) return said(cudaErrorInvalidPitchValue);
  const std::lock_guard lock(machine().mutex);
  if (!is_allocated(to, (rows - 1) * to_pitch + width) ||
      !is_allocated(from, (rows - 1) * from_pitch + width))
    return said(cudaErrorInvalidValue);
  return enqueue(stream, [=] {
    for (std::size_t row = 0; row < rows; ++row) {
      std::memmove(static_cast<std::byte*>(to) + row * to_pitch,
                   static_cast<const std::byte*>(from) + row * from_pitch, width);
    }
  });
}

}  // namespace
}  // namespace emulated

using emulated::machine;
using emulated::said;
using emulated::t_gpu;

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return emulated::allocate(data, bytes, t_gpu);
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  return emulated::allocate(data, bytes, -1);
}
cudaError_t cudaFree(void* data) {
  return emulated::release(data);
}
cudaError_t cudaFreeHost(void* data) {
  return emulated::release(data);
}
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  const std::lock_guard lock(machine().mutex);
  *total = emulated::kMemoryBytes;
  constexpr std::int64_t kContextBytes = std::int64_t{16} << 20;  // what a driver takes for itself
  *available = static_cast<std::size_t>(emulated::kMemoryBytes - kContextBytes - machine().used[t_gpu]);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return emulated::copy_rows(to, bytes, from, bytes, bytes, 1, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t rows, cudaMemcpyKind, cudaStream_t stream) {
  return emulated::copy_rows(to, to_pitch, from, from_pitch, width, rows, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return cudaMemset2DAsync(to, bytes, value, bytes, 1, stream);
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t rows,
                              cudaStream_t stream) {
  if (width == 0 || rows == 0) return cudaSuccess;
  const std::lock_guard lock(machine().mutex);
  if (pitch < width || !emulated::is_allocated(to, (rows - 1) * pitch + width))
    return said(cudaErrorInvalidValue);
  return emulated::enqueue(stream, [=] {
    for (std::size_t row = 0; row < rows; ++row)
      std::memset(static_cast<std::byte*>(to) + row * pitch, value, width);
  });
}

}  // extern "C"
