// copy_rectangle: rows of bytes at equal distances, moved by the copy engine. Used for cuts of tensors.
#pragma once

#include <cstddef>

#include "tessera/backend/cuda/cuda_call.h"

namespace tessera::cuda {

struct RowDistances {
  std::size_t to = 0, from = 0;  // bytes from the beginning of a row to that of the next
};

// `what`: for an Error, as check_cuda has it.
void copy_rectangle(void* to, const void* from, RowDistances distances, std::size_t row_bytes,
                    std::size_t num_rows, cudaStream_t stream, const char* what);

}  // namespace tessera::cuda
