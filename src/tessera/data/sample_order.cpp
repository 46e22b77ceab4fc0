#include "tessera/data/sample_order.h"

#include <bit>

#include "tessera/base/error.h"
#include "tessera/base/philox.h"

namespace tessera {
namespace {

// Four rounds of a strong round function already look random on large domains (Luby and Rackoff 1988);
// a corpus of a few dozen samples is a small domain and needs more.
constexpr std::uint32_t kRounds = 8;

// A Feistel network permutes the numbers of 2 * half_bits bits whatever its round function is.
std::uint64_t feistel(std::uint64_t key, int half_bits, std::uint64_t value) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits, right = value & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = left ^ (philox(key, right, round)[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits | right;
}

}  // namespace

std::int64_t permute_index(std::uint64_t key, std::int64_t size, std::int64_t index) {
  TS_ASSERT(index >= 0 && index < size && size <= std::int64_t{1} << 62);
  if (size == 1) return 0;
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1)));
  const int half_bits = (bits + 1) / 2;
  // Cycle walking: a value outside [0, size) is permuted again until it is inside. That is a permutation
  // of [0, size), and since the network's domain is less than 4 * size, under four steps on average.
  auto value = static_cast<std::uint64_t>(index);
  do {
    value = feistel(key, half_bits, value);
  } while (value >= static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(value);
}

std::int64_t sample_at(std::uint64_t seed, std::int64_t samples_per_epoch, std::int64_t global_sample) {
  TS_ASSERT(global_sample >= 0 && samples_per_epoch >= 1);
  const std::int64_t epoch = global_sample / samples_per_epoch;
  const PhiloxBlock block = philox(seed, static_cast<std::uint64_t>(epoch), name_hash("data.sample_order"));
  const std::uint64_t key = std::uint64_t{block[1]} << 32 | block[0];
  return permute_index(key, samples_per_epoch, global_sample % samples_per_epoch);
}

}  // namespace tessera
