#include "emulated_gpu/tensor_map.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "emulated_gpu/access_watch.h"

namespace emulated {
namespace {

struct Map {
  const std::byte* data;
  std::int64_t sizes[3], strides[2];  // strides in bytes
  std::int64_t box[3];
};
static_assert(sizeof(Map) <= sizeof(CUtensorMap));

constexpr std::int64_t kElemBytes = 2;

// What of a box's row is read.
void note_row(const Map& map, std::int64_t x, std::int64_t j, std::int64_t k) {
  if (j < 0 || j >= map.sizes[1] || k < 0 || k >= map.sizes[2]) return;
  const std::int64_t begin = std::max<std::int64_t>(x, 0), end = std::min(x + map.box[0], map.sizes[0]);
  if (begin >= end) return;
  note_read(map.data + k * map.strides[1] + j * map.strides[0] + begin * kElemBytes,
            static_cast<std::size_t>((end - begin) * kElemBytes));
}

}  // namespace

CUresult encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                           const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* steps, CUtensorMapInterleave interleave,
                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  bool good = type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 && rank == 3 &&
              interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && swizzle == CU_TENSOR_MAP_SWIZZLE_128B &&
              fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && reinterpret_cast<std::uintptr_t>(data) % 16 == 0 &&
              box[0] * kElemBytes <= 128;
  Map made{.data = static_cast<const std::byte*>(data), .sizes = {}, .strides = {}, .box = {}};
  for (int i = 0; i < 3; ++i) {
    good = good && sizes[i] > 0 && box[i] > 0 && box[i] <= 256 && steps[i] == 1;
    made.sizes[i] = static_cast<std::int64_t>(sizes[i]);
    made.box[i] = box[i];
  }
  for (int i = 0; i < 2; ++i) {
    good = good && strides[i] % 16 == 0;
    made.strides[i] = static_cast<std::int64_t>(strides[i]);
  }
  if (!good) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
}

unsigned copy_box(std::byte* shared, std::uint32_t address, const CUtensorMap& encoded, int x, int y, int z) {
  Map map;
  std::memcpy(&map, &encoded, sizeof map);
  assert(address % 1024 == 0);
  std::uint32_t at = address;
  note_write(shared + address, static_cast<std::size_t>(map.box[0] * map.box[1] * map.box[2] * kElemBytes));
  for (std::int64_t k = z; k < z + map.box[2]; ++k) {
    for (std::int64_t j = y; j < y + map.box[1]; ++j) {
      note_row(map, x, j, k);
      for (std::int64_t i = x; i < x + map.box[0]; ++i, at += kElemBytes) {
        const bool inside =
            i >= 0 && i < map.sizes[0] && j >= 0 && j < map.sizes[1] && k >= 0 && k < map.sizes[2];
        std::uint16_t elem = 0;
        if (inside)
          std::memcpy(&elem, map.data + k * map.strides[1] + j * map.strides[0] + i * kElemBytes, kElemBytes);
        std::memcpy(shared + swizzled(at), &elem, kElemBytes);
      }
    }
  }
  return at - address;
}

}  // namespace emulated
