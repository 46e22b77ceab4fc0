#include "tessera/backend/cuda/shared_limit.h"

#include <map>
#include <mutex>
#include <utility>

#include "tessera/backend/cuda/cuda_call.h"

namespace tessera::cuda {

void raise_shared_limit(const void* kernel, std::size_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, std::size_t> limits;
  int gpu = 0;
  check_cuda(cudaGetDevice(&gpu), "find the GPU");
  const std::lock_guard lock(mutex);
  std::size_t& limit = limits[{gpu, kernel}];
  if (bytes <= limit) return;
  check_cuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
      "ask for shared memory");
  limit = bytes;
}

}  // namespace tessera::cuda
