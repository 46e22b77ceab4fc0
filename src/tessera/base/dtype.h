// DType: the element types a tensor may have, their sizes and names.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/base/bf16.h"
#include "tessera/base/error.h"

namespace tessera {

enum class DType : std::uint8_t { f32, bf16, f64, i32, i16 };

constexpr std::int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::f64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::i16:
      return "i16";
  }
  return "?";
}

template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<Bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::i16;

// What sums and gradients of a T are kept in: float, except for the double of the tests.
constexpr DType accumulate_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace tessera
