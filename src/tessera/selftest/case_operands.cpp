#include "tessera/selftest/case_operands.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/base/philox.h"

namespace tessera {
namespace {

constexpr std::int64_t kGroup = 4;  // elements of a Philox block
constexpr std::int64_t kTaskElems = 16 * 1024;
static_assert(kTaskElems % kGroup == 0);

// Elements 4 * group to 4 * group + 3.
std::array<double, 4> values_of_group(const CaseInput& input, std::uint64_t seed, std::uint64_t stream,
                                      std::uint64_t group) {
  std::array<double, 4> values{};
  if (input.fill == CaseInput::Fill::normal) {
    const std::array<float, 4> normals = philox_normals(seed, stream, group);
    for (std::size_t i = 0; i < 4; ++i) values[i] = input.high * static_cast<double>(normals[i]);
    return values;
  }
  const PhiloxBlock block = philox(seed, group, stream);
  for (std::size_t i = 0; i < 4; ++i) {
    const double value = input.low + philox_uniform(block[i]) * (input.high - input.low);
    values[i] = input.fill == CaseInput::Fill::integer ? std::floor(value) : value;
  }
  return values;
}

template <class T>
void put(std::byte* to, double value) {
  T stored;
  if constexpr (std::is_same_v<T, Bf16>) {
    stored = Bf16(static_cast<float>(value));
  } else {
    stored = static_cast<T>(value);
  }
  std::memcpy(to, &stored, sizeof(T));
}

using Put = void (*)(std::byte*, double);
Put put_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return put<float>;
    case DType::bf16:
      return put<Bf16>;
    case DType::f64:
      return put<double>;
    case DType::i16:
      return put<std::int16_t>;
    case DType::i32:
      break;
  }
  return put<std::int32_t>;
}

}  // namespace

std::vector<std::byte> random_operand(const CaseInput& input, std::uint64_t seed, std::uint64_t stream,
                                      ThreadPool& pool) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(input.type.num_bytes()));
  const std::int64_t num_elems = input.type.shape.num_elems(), size = dtype_bytes(input.type.dtype);
  const Put put_element = put_of(input.type.dtype);
  pool.for_each_task((num_elems + kTaskElems - 1) / kTaskElems, [&](std::int64_t task, int) {
    const std::int64_t end = std::min(num_elems, (task + 1) * kTaskElems);
    for (std::int64_t first = task * kTaskElems; first < end; first += kGroup) {
      const auto values = values_of_group(input, seed, stream, static_cast<std::uint64_t>(first / kGroup));
      for (std::int64_t i = first; i < std::min(end, first + kGroup); ++i) {
        put_element(bytes.data() + i * size, values[static_cast<std::size_t>(i - first)]);
      }
    }
  });
  return bytes;
}

}  // namespace tessera
