// Which probabilities of a tile of queries and keys are kept, for attention's kernels: one bit each, made by
// the block's threads together, as the numbers of eight neighbouring keys come at once
// (ops/attention_dropout.h).
#pragma once

#include "tessera/backend/cuda/attention.h"
#include "tessera/base/philox.h"

namespace tessera::cuda {

template <bool kDrop, int kQueries, int kKeys>
struct KeepTile {
  alignas(16) std::uint8_t bits[kQueries][kKeys / kKeysOfDropoutBlock];

  // Of the queries from q0 and the keys from k0 on, a multiple of eight. All threads take part; the block
  // must synchronize before it reads them.
  __device__ void fill(const AttentionShape& shape, int b, int h, int q0, int k0) {
    const std::int32_t* const key = shape.dropout_key;
    const std::uint64_t seed =
        static_cast<std::uint32_t>(key[0]) | std::uint64_t{static_cast<std::uint32_t>(key[1])} << 32;
    const std::uint64_t step = static_cast<std::uint32_t>(key[2]);
    // Read before the loop, since the compiler takes its stores for ones to the key.
    const std::int64_t sequence = std::int64_t{key[3]} + b;
    constexpr int kBlocks = kKeys / kKeysOfDropoutBlock;
    for (int i = static_cast<int>(threadIdx.x); i < kQueries * kBlocks; i += static_cast<int>(blockDim.x)) {
      const int q = i / kBlocks, block = i % kBlocks, first = k0 + block * kKeysOfDropoutBlock;
      const bool hidden = q0 + q >= shape.seq || (shape.causal && first > q0 + q);
      bits[q][block] = hidden ? 0 : draw(shape, seed, step, sequence, h, q0 + q, first);
    }
  }

  __device__ float factor(int q, int k, float kept) const {
    return bits[q][k / kKeysOfDropoutBlock] >> (k % kKeysOfDropoutBlock) & 1 ? kept : 0.0f;
  }

 private:
  __device__ static std::uint8_t draw(const AttentionShape& shape, std::uint64_t seed, std::uint64_t step,
                                      std::int64_t sequence, int h, int query, int first_key) {
    const std::uint64_t counter = shape.dropout.counter(sequence, h, query, shape.seq) +
                                  static_cast<std::uint64_t>(first_key / kKeysOfDropoutBlock);
    const PhiloxBlock numbers = philox(seed, counter, step);
    std::uint32_t kept = 0;
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const std::uint32_t low = numbers[static_cast<std::size_t>(word)] & 0xffffu;
      const std::uint32_t high = numbers[static_cast<std::size_t>(word)] >> 16;
      kept |= (low >= shape.dropout.threshold ? 1u : 0u) << (2 * word);
      kept |= (high >= shape.dropout.threshold ? 1u : 0u) << (2 * word + 1);
    }
    return static_cast<std::uint8_t>(kept);
  }
};

// Nothing is dropped: no memory and no work.
template <int kQueries, int kKeys>
struct KeepTile<false, kQueries, kKeys> {
  __device__ void fill(const AttentionShape&, int, int, int, int) {}
  __device__ float factor(int, int, float) const { return 1.0f; }
};

// Calls f with std::bool_constant: whether the node drops.
template <class F>
void for_dropout(const AttentionShape& shape, F&& f) {
  if (shape.dropout.drops()) return f(std::bool_constant<true>{});
  f(std::bool_constant<false>{});
}

}  // namespace tessera::cuda
