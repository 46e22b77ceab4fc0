// What an emulated copy engine knows of a tensor: matrices of bf16 rows, of which it copies boxes to swizzled
// tiles.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace emulated {

// cuTensorMapEncodeTiled, as far as backend/cuda/tile_map.cpp asks for it; refuses what that does not.
CUresult encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                           const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* steps, CUtensorMapInterleave interleave,
                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                           CUtensorMapFloatOOBfill fill);

// The box from {x, y, z} on, with zeros where there is no tensor, to shared + address; how many bytes that
// is.
unsigned copy_box(std::byte* shared, std::uint32_t address, const CUtensorMap& map, int x, int y, int z);

// Where the byte of a swizzled tile lies whose place would be `address`.
inline std::uint32_t swizzled(std::uint32_t address) {
  return address ^ (address >> 3 & 0x70);
}

}  // namespace emulated
