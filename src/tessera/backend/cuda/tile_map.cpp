#include "tessera/backend/cuda/tile_map.h"

#include <cuda_runtime_api.h>

#include "tessera/backend/cuda/cuda_call.h"
#include "tessera/base/error.h"

namespace tessera::cuda {
namespace {

// Of the driver, which is not linked: a program built with CUDA also starts without it.
decltype(&cuTensorMapEncodeTiled) find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  check_cuda(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
      "find cuTensorMapEncodeTiled");
  TS_CHECK(result == cudaDriverEntryPointSuccess,
           "cuda: the driver has no cuTensorMapEncodeTiled: expected CUDA 12");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
}

}  // namespace

CUtensorMap tile_map(const void* data, const Matrices& matrices, int box_rows) {
  static const auto encode = find_encode();
  const auto size = [](std::int64_t count) { return static_cast<cuuint64_t>(count); };
  const cuuint64_t sizes[] = {size(matrices.width), size(matrices.rows), size(matrices.matrices)};
  const cuuint64_t strides[] = {sizes[0] * 2, sizes[0] * sizes[1] * 2};  // bytes
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_rows), 1}, steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(data), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TS_CHECK(result == CUDA_SUCCESS, "cuda: refused a map of {} x {} x {} elements, error {}",
           matrices.matrices, matrices.rows, matrices.width, static_cast<int>(result));
  return map;
}

}  // namespace tessera::cuda
