// The random bits of one query's probabilities, by which attention and its gradient decide what to drop;
// ops/attention_dropout.h says which bits are whose.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "tessera/backend/cpu/attention_block.h"
#include "tessera/base/philox.h"
#include "tessera/ops/attention_dropout.h"

namespace tessera::cpu {

struct KeepBits {
  std::uint32_t threshold;
  double factor;  // of what is kept
  std::uint64_t seed, counter, step;

  // Those of `count` keys from k0 on, which begins a block of them; rounded up to whole blocks.
  void draw(std::int64_t k0, std::int64_t count, std::array<std::uint16_t, kKeyBlock>& bits) const {
    static_assert(kKeyBlock % kKeysOfDropoutBlock == 0 && std::endian::native == std::endian::little);
    std::array<std::uint32_t, kKeyBlock / 2> words;
    const std::uint64_t first = counter + static_cast<std::uint64_t>(k0 / kKeysOfDropoutBlock);
    const auto blocks = static_cast<std::uint64_t>(ceil_div(count, kKeysOfDropoutBlock));
#pragma omp simd
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const PhiloxBlock block = philox(seed, first + i, step);
      words[4 * i] = block[0];
      words[4 * i + 1] = block[1];
      words[4 * i + 2] = block[2];
      words[4 * i + 3] = block[3];
    }
    std::memcpy(bits.data(), words.data(), blocks * sizeof(PhiloxBlock));
  }
};

inline KeepBits keep_bits(const AttentionShape& shape, std::int64_t sequence, std::int64_t head,
                          std::int64_t query) {
  const auto word = [&](std::size_t i) { return static_cast<std::uint32_t>(shape.dropout_key[i]); };
  return {.threshold = shape.dropout.threshold,
          .factor = shape.dropout.factor,
          .seed = word(0) | std::uint64_t{word(1)} << 32,
          .counter = shape.dropout.counter(shape.dropout_key[3] + sequence, head, query, shape.seq),
          .step = word(2)};
}

}  // namespace tessera::cpu
