// Philox4x32-10: random numbers as a pure function of (key, counter).
//
// Initial weights, dropout masks and the data order are computed from such counters, never from a
// generator with state, so they are the same on every layout and after every resume.
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace tessera {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high = 0) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low),
                c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high),
                c3 = static_cast<std::uint32_t>(counter_high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    const auto n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const auto n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// 64-bit FNV-1a: turns a parameter's name into a counter word.
constexpr std::uint64_t name_hash(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

// Uniform in (0, 1): 24 bits, never 0, so its logarithm is finite.
inline double philox_uniform(std::uint32_t bits) {
  return ((bits >> 8) + 0.5) * 0x1p-24;
}

// Standard normal numbers 4 * group to 4 * group + 3 of stream (key, stream): one block makes two
// Box-Muller pairs. In double, so that an element has the same value with every vector width.
inline std::array<float, 4> philox_normals(std::uint64_t key, std::uint64_t stream, std::uint64_t group) {
  const PhiloxBlock block = philox(key, group, stream);
  std::array<float, 4> normals{};
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2.0 * std::log(philox_uniform(block[pair])));
    const double angle = 2.0 * std::numbers::pi * philox_uniform(block[pair + 1]);
    normals[pair] = static_cast<float>(radius * std::cos(angle));
    normals[pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return normals;
}

inline float philox_normal(std::uint64_t key, std::uint64_t stream, std::uint64_t element) {
  return philox_normals(key, stream, element / 4)[element % 4];
}

}  // namespace tessera
