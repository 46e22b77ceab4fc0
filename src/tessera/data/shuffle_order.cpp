#include "tessera/data/shuffle_order.h"

#include <array>
#include <bit>
#include <numeric>
#include <random>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// A seed sequence that hands an MT19937 its whole state: std::mt19937 has no other way in.
class GivenState {
 public:
  using result_type = std::uint32_t;
  explicit GivenState(const std::array<std::uint32_t, 624>& state) : state_(state) {}

  template <class Iterator>
  void generate(Iterator begin, Iterator end) const {
    for (std::size_t i = 0; begin != end; ++begin, ++i) *begin = state_[i];
  }

 private:
  const std::array<std::uint32_t, 624>& state_;
};

// The reference implementation's init_by_array (Matsumoto and Nishimura 2002), which Python seeds with: the
// key is the seed's 32-bit words.
std::mt19937 seeded_by_array(std::uint64_t seed) {
  constexpr std::size_t kSize = 624;
  std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  const std::size_t key_size = key[1] != 0 ? 2 : 1;
  std::array<std::uint32_t, kSize> state;
  const auto mixed = [&](std::size_t i, std::uint32_t factor) {
    return (state[i - 1] ^ state[i - 1] >> 30) * factor;
  };
  state[0] = 19650218u;
  for (std::size_t i = 1; i < kSize; ++i) state[i] = mixed(i, 1812433253u) + static_cast<std::uint32_t>(i);
  std::size_t i = 1, j = 0;
  const auto advance = [&] {
    if (++i < kSize) return;
    state[0] = state[kSize - 1];
    i = 1;
  };
  for (std::size_t k = 0; k < kSize; ++k) {
    state[i] = (state[i] ^ mixed(i, 1664525u)) + key[j] + static_cast<std::uint32_t>(j);
    advance();
    j = (j + 1) % key_size;
  }
  for (std::size_t k = 1; k < kSize; ++k) {
    state[i] = (state[i] ^ mixed(i, 1566083941u)) - static_cast<std::uint32_t>(i);
    advance();
  }
  state[0] = 0x80000000u;
  GivenState given(state);
  return std::mt19937(given);
}

std::vector<std::int64_t> counted(std::int64_t size) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

}  // namespace

std::vector<std::int64_t> python_shuffle(std::uint64_t seed, std::int64_t size) {
  TS_ASSERT(size >= 0 && size < std::int64_t{1} << 32);
  std::mt19937 random = seeded_by_array(seed);
  std::vector<std::int64_t> values = counted(size);
  for (std::size_t i = values.size(); i-- > 1;) {
    // As many high bits as i + 1 has, drawn again until they are below it.
    const auto bits = static_cast<int>(std::bit_width(i + 1));
    std::size_t partner;
    do partner = random() >> (32 - bits);
    while (partner > i);
    std::swap(values[i], values[partner]);
  }
  return values;
}

std::vector<std::int64_t> torch_permutation(std::uint64_t seed, std::int64_t size) {
  TS_ASSERT(size >= 0 && size < (std::int64_t{1} << 32) / 20);  // beyond, torch draws 64 bits
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::vector<std::int64_t> values = counted(size);
  for (std::size_t i = 0; i + 1 < values.size(); ++i)
    std::swap(values[i], values[i + random() % (values.size() - i)]);
  return values;
}

}  // namespace tessera
