// Rounding to one of the two bf16 around a float, to each with the probability of its nearness: what a small
// update adds to a large bf16 weight is lost in no single step and kept on average. Used by adamw where the
// weights or moments that it updates are bf16.
//
// The random bits are a pure function of (parameter, step, element), so a run has the same bits on every
// device and after every resume.
#pragma once

#include "tessera/base/philox.h"

namespace tessera {

// One word for each of the elements 4 * group to 4 * group + 3.
constexpr PhiloxBlock rounding_words(std::uint64_t parameter_hash, std::uint64_t step, std::uint64_t group) {
  return philox(parameter_hash, group, step);
}

// An element's random 16 bits for its weight and its moments. The second moment's are the first 16 of the
// word times an odd number, so they are as uniform as the word: one Philox block serves four elements.
constexpr std::uint32_t weight_bits(std::uint32_t word) {
  return word & 0xffffu;
}
constexpr std::uint32_t moment1_bits(std::uint32_t word) {
  return word >> 16;
}
constexpr std::uint32_t moment2_bits(std::uint32_t word) {
  return (word * 0x9E3779B9u) >> 16;
}

// The bits of the bf16. Infinities stay, and a NaN stays a (quiet) NaN.
constexpr std::uint16_t round_stochastically(std::uint32_t float_bits, std::uint32_t random_16_bits) {
  const std::uint32_t magnitude = float_bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) {
    const std::uint32_t quiet = magnitude > 0x7f800000u ? 0x40u : 0u;
    return static_cast<std::uint16_t>((float_bits >> 16) | quiet);
  }
  return static_cast<std::uint16_t>((float_bits + random_16_bits) >> 16);
}

}  // namespace tessera
