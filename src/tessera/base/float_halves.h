// A float as its rounding to bf16 and 16 bits more. A bf16 weight whose updates are computed in fp32 is
// stored so: the model multiplies with the rounding, the optimizer joins both halves, and no bit is stored
// twice.
//
// The rounding is Bf16's, to nearest; the low half is the float's own lower bits, read as a signed number
// that is added to the rounding. Halfway between two bf16, where rounding to even goes down, the sum would
// not fit: there the float itself gives up one unit of its last place.
#pragma once

#include <cstdint>

namespace tessera {

constexpr std::int16_t low_half(std::uint32_t float_bits) {
  const bool tie_to_below = (float_bits & 0x1ffffu) == 0x8000u;
  return static_cast<std::int16_t>(tie_to_below ? 0x7fffu : float_bits & 0xffffu);
}

// The bits of the float.
constexpr std::uint32_t join_halves(std::uint16_t rounded, std::int16_t low) {
  return (static_cast<std::uint32_t>(rounded) << 16) + static_cast<std::uint32_t>(std::int32_t{low});
}

}  // namespace tessera
