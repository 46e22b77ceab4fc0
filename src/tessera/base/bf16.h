// Bf16: the upper half of a float. Storage only; arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera {

struct Bf16 {
  std::uint16_t bits = 0;

  Bf16() = default;
  // Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  explicit Bf16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t quiet_nan = (u >> 16) | 0x40u;
    bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

static_assert(sizeof(Bf16) == 2);

}  // namespace tessera
