// TokenDType: the types a Megatron .bin stores its tokens in; the values are the codes of the .idx.
//
// Two are floats: ids that somebody's array of floats held. Code 7 is float32 in Megatron-LM and float64 in
// NeMo; a reader tells by the size of the .bin.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace tessera {

static_assert(std::endian::native == std::endian::little,
              "tokens are read in place, and files are little-endian");

enum class TokenDType : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, f64 = 6, f32 = 7, u16 = 8 };

constexpr std::int64_t token_bytes(TokenDType dtype) {
  switch (dtype) {
    case TokenDType::u8:
    case TokenDType::i8:
      return 1;
    case TokenDType::i16:
    case TokenDType::u16:
      return 2;
    case TokenDType::i32:
    case TokenDType::f32:
      return 4;
    case TokenDType::i64:
    case TokenDType::f64:
      return 8;
  }
  return 0;
}

constexpr std::string_view token_dtype_name(TokenDType dtype) {
  switch (dtype) {
    case TokenDType::u8:
      return "uint8";
    case TokenDType::i8:
      return "int8";
    case TokenDType::i16:
      return "int16";
    case TokenDType::i32:
      return "int32";
    case TokenDType::i64:
      return "int64";
    case TokenDType::f64:
      return "float64";
    case TokenDType::f32:
      return "float32";
    case TokenDType::u16:
      return "uint16";
  }
  return "?";
}

// Megatron's choice, margin below 65536 included, so that our files are the bytes its own builder writes.
constexpr TokenDType token_dtype_for_vocabulary(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenDType::u16 : TokenDType::i32;
}

// Calls f with a value of the stored type: f(std::uint16_t{}).
template <class F>
decltype(auto) with_token_type(TokenDType dtype, F&& f) {
  switch (dtype) {
    case TokenDType::u8:
      return f(std::uint8_t{});
    case TokenDType::i8:
      return f(std::int8_t{});
    case TokenDType::i16:
      return f(std::int16_t{});
    case TokenDType::u16:
      return f(std::uint16_t{});
    case TokenDType::i64:
      return f(std::int64_t{});
    case TokenDType::f64:
      return f(double{});
    case TokenDType::f32:
      return f(float{});
    case TokenDType::i32:
      break;
  }
  return f(std::int32_t{});
}

}  // namespace tessera
