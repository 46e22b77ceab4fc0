#include "tessera/backend/cuda/copy_rectangle.h"

#include <algorithm>
#include <limits>

namespace tessera::cuda {

// CUDA promises copies of rectangles for distances below 2 GiB (cudaDevAttrMaxPitch) alone. Longer rows are
// few, and copied one by one.
void copy_rectangle(void* to, const void* from, RowDistances distances, std::size_t row_bytes,
                    std::size_t num_rows, cudaStream_t stream, const char* what) {
  constexpr std::size_t kMostDistance = std::numeric_limits<int>::max();
  if (std::max(distances.to, distances.from) <= kMostDistance) {
    return check_cuda(cudaMemcpy2DAsync(to, distances.to, from, distances.from, row_bytes, num_rows,
                                        cudaMemcpyDefault, stream),
                      what);
  }
  for (std::size_t row = 0; row < num_rows; ++row) {
    check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(to) + row * distances.to,
                               static_cast<const std::byte*>(from) + row * distances.from, row_bytes,
                               cudaMemcpyDefault, stream),
               what);
  }
}

}  // namespace tessera::cuda
