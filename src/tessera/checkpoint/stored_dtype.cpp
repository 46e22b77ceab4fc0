#include "tessera/checkpoint/stored_dtype.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

namespace tessera {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

struct StoredDTypeRow {
  std::string_view name;
  std::int64_t num_bytes;
};

constexpr std::array<StoredDTypeRow, 16> kRows = {{{"BOOL", 1},
                                                   {"U8", 1},
                                                   {"I8", 1},
                                                   {"F8_E5M2", 1},
                                                   {"F8_E4M3", 1},
                                                   {"I16", 2},
                                                   {"U16", 2},
                                                   {"F16", 2},
                                                   {"BF16", 2},
                                                   {"I32", 4},
                                                   {"U32", 4},
                                                   {"F32", 4},
                                                   {"C64", 8},
                                                   {"F64", 8},
                                                   {"I64", 8},
                                                   {"U64", 8}}};
static_assert(kRows.size() == static_cast<std::size_t>(StoredDType::u64) + 1);

struct Half {
  std::uint16_t bits = 0;

  // Every half is a float exactly. Written as selects, without branches, so that loops vectorise, and
  // without float subnormals in between, which a flush-to-zero mode would lose.
  explicit operator float() const {
    const std::uint32_t magnitude = bits & 0x7fffu;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t normal = (magnitude << 13) + (112u << 23);
    const std::uint32_t infinite_or_nan = (magnitude << 13) | 0x7f800000u;
    const auto subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    const std::uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
    return std::bit_cast<float>(sign | (magnitude >= 0x7c00u ? infinite_or_nan : finite));
  }
};

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class To, class From>
void convert_floats(std::span<const std::byte> source, std::span<To> destination) {
  // A double keeps its digits only on the way to a double; all else passes through float.
  using Between = std::conditional_t<std::is_same_v<To, double>, double, float>;
  const std::byte* at = source.data();
  for (std::size_t i = 0; i < destination.size(); ++i) {
    const From stored = load<From>(at + i * sizeof(From));
    if constexpr (std::is_arithmetic_v<From>) {
      destination[i] = static_cast<To>(static_cast<Between>(stored));
    } else {
      destination[i] = static_cast<To>(static_cast<Between>(static_cast<float>(stored)));
    }
  }
}

template <class To>
void convert_floats(std::span<const std::byte> source, StoredDType from, std::span<To> destination) {
  switch (from) {
    case StoredDType::f16:
      return convert_floats<To, Half>(source, destination);
    case StoredDType::bf16:
      return convert_floats<To, Bf16>(source, destination);
    case StoredDType::f32:
      return convert_floats<To, float>(source, destination);
    case StoredDType::f64:
      return convert_floats<To, double>(source, destination);
    default:
      TS_ASSERT(can_convert(from, dtype_of<To>));
  }
}

std::optional<std::int64_t> narrow_i64(std::span<const std::byte> source,
                                       std::span<std::int32_t> destination) {
  for (std::size_t i = 0; i < destination.size(); ++i) {
    const auto value = load<std::int64_t>(source.data() + i * sizeof(std::int64_t));
    destination[i] = static_cast<std::int32_t>(value);
    if (destination[i] != value) return value;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t stored_dtype_bytes(StoredDType dtype) {
  return kRows[static_cast<std::size_t>(dtype)].num_bytes;
}

std::string_view stored_dtype_name(StoredDType dtype) {
  return kRows[static_cast<std::size_t>(dtype)].name;
}

std::optional<StoredDType> find_stored_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<StoredDType>(i);
  }
  return std::nullopt;
}

StoredDType stored_dtype_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return StoredDType::f32;
    case DType::bf16:
      return StoredDType::bf16;
    case DType::f64:
      return StoredDType::f64;
    case DType::i32:
      return StoredDType::i32;
    case DType::i16:
      return StoredDType::i16;
  }
  TS_ASSERT(false);
}

bool can_convert(StoredDType from, DType to) {
  switch (from) {
    case StoredDType::f16:
    case StoredDType::bf16:
    case StoredDType::f32:
    case StoredDType::f64:
      return to != DType::i32 && to != DType::i16;
    case StoredDType::i32:
    case StoredDType::i64:
      return to == DType::i32;
    default:
      return false;
  }
}

std::optional<std::int64_t> convert_elements(std::span<const std::byte> source, StoredDType from,
                                             TensorView destination) {
  TS_ASSERT(can_convert(from, destination.dtype));
  TS_ASSERT(static_cast<std::int64_t>(source.size()) == destination.num_elems() * stored_dtype_bytes(from));
  if (source.empty()) return std::nullopt;
  if (from == stored_dtype_of(destination.dtype)) {
    std::memcpy(destination.data, source.data(), source.size());
    return std::nullopt;
  }
  switch (destination.dtype) {
    case DType::f32:
      convert_floats(source, from, destination.as<float>());
      break;
    case DType::bf16:
      convert_floats(source, from, destination.as<Bf16>());
      break;
    case DType::f64:
      convert_floats(source, from, destination.as<double>());
      break;
    case DType::i32:
      return narrow_i64(source, destination.as<std::int32_t>());
    case DType::i16:
      break;  // nothing is read as that: low halves are stored with the weights
  }
  return std::nullopt;
}

}  // namespace tessera
