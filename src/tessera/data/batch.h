// Batch: B rows of T token ids and, for each, the id to predict there.
//
// Filled by TokenBatches, GptDataset, TextBlocks or BertShards as Samples, carried by PrefetchLoader, read by
// the training and evaluation loops.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

inline constexpr std::int32_t kNotScored =
    -100;  // the target of a token after which nothing is to be predicted

struct Batch {
  Batch() = default;
  Batch(std::int64_t num_rows, std::int64_t row_tokens)
      : batch_size(num_rows),
        seq_len(row_tokens),
        inputs(static_cast<std::size_t>(num_rows * row_tokens)),
        targets(inputs.size()) {}

  // With the fields of sentence pairs.
  static Batch of_pairs(std::int64_t num_rows, std::int64_t row_tokens) {
    Batch batch(num_rows, row_tokens);
    batch.token_types.resize(batch.inputs.size());
    batch.key_counts.resize(static_cast<std::size_t>(num_rows));
    batch.next_sentence.resize(static_cast<std::size_t>(num_rows));
    return batch;
  }

  static std::int64_t num_bytes(std::int64_t num_rows, std::int64_t row_tokens, bool pairs) {
    const std::int64_t numbers = num_rows * row_tokens * (pairs ? 3 : 2) + num_rows * (pairs ? 2 : 0);
    return numbers * static_cast<std::int64_t>(sizeof(std::int32_t));
  }

  std::int64_t batch_size = 0;       // B
  std::int64_t seq_len = 0;          // T
  std::vector<std::int32_t> inputs;  // [B,T]
  std::vector<std::int32_t>
      targets;                    // [B,T]: what follows inputs[b,t]; of pairs: what was masked there, or -100
  std::int64_t first_sample = 0;  // global number of row 0; row b is sample first_sample + b

  // Empty but for sentence pairs (BERT).
  std::vector<std::int32_t> token_types;    // [B,T]: 0 in the first sentence, 1 in the second
  std::vector<std::int32_t> key_counts;     // [B]: tokens before the padding
  std::vector<std::int32_t> next_sentence;  // [B]: 1 when the second sentence does not follow the first
};

}  // namespace tessera
