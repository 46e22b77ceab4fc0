// Which of attention's probabilities are dropped: the numbers that every backend's kernels draw, so that all
// of them drop the same ones on every layout, in forward, gradient and recompute.
//
// The probability of (sequence of the global batch, head of all heads, query, key) takes 16 bits: half key %
// 2 of word key % 8 / 2 of the Philox block with
//   key           seed, 64 bits: the dropout key's [0] the lower half, [1] the upper
//   counter low   ((sequence heads + head) T + query) ceil(T / 8) + key / 8 in the lower 48 bits,
//                 the dropout's stream in the upper 16
//   counter high  the step
// and is kept if they are at least the threshold. 16 bits, where dropout_add has 32, as there are T times
// more elements: one block serves eight neighbouring keys. The rate is rounded to a 65536th, and the factor
// of what is kept is that of the rounded rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tessera/base/error.h"
#include "tessera/base/philox.h"
#include "tessera/ops/attention.h"

namespace tessera {

inline constexpr int kKeysOfDropoutBlock = 8;

// What all elements of a node have in common.
struct AttentionDropout {
  std::uint32_t threshold = 0;  // 0: nothing is dropped
  double factor = 1;            // of what is kept
  std::uint64_t stream = 0;
  std::int64_t all_heads = 0, first_head = 0;  // of the model, of this rank
  std::int64_t first_sequence = 0;             // of this rank, behind the one that the dropout key says

  constexpr bool drops() const { return threshold > 0; }
  // Counter of the block of keys 0 to 7 of a query; further blocks follow it.
  constexpr std::uint64_t counter(std::int64_t sequence, std::int64_t head, std::int64_t query,
                                  std::int64_t seq_len) const {
    const std::int64_t blocks = (seq_len + kKeysOfDropoutBlock - 1) / kKeysOfDropoutBlock;
    const std::int64_t row = ((first_sequence + sequence) * all_heads + first_head + head) * seq_len + query;
    return (stream << 48) + static_cast<std::uint64_t>(row * blocks);
  }
};

// `first_head` and `first_sequence` of this rank.
inline AttentionDropout attention_dropout(const AttentionAttrs& attrs, std::int64_t first_head,
                                          std::int64_t first_sequence) {
  if (!attrs.drops()) return {};
  TS_ASSERT(attrs.stream >= 0 && attrs.stream < (1 << 16));
  constexpr double kSteps = 65536;
  const double threshold = std::clamp(std::round(attrs.dropout * kSteps), 1.0, kSteps - 1);
  return {.threshold = static_cast<std::uint32_t>(threshold),
          .factor = kSteps / (kSteps - threshold),
          .stream = static_cast<std::uint64_t>(attrs.stream),
          .all_heads = attrs.head_range.cut ? attrs.head_range.whole : attrs.heads.heads,
          .first_head = first_head,
          .first_sequence = first_sequence};
}

}  // namespace tessera
