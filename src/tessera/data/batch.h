// Batch: B rows of T token ids and, for each, the id that follows it.
//
// Filled by TokenBatches, carried by PrefetchLoader, read by the training and evaluation loops.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

struct Batch {
  Batch() = default;
  Batch(std::int64_t num_rows, std::int64_t row_tokens)
      : batch_size(num_rows),
        seq_len(row_tokens),
        inputs(static_cast<std::size_t>(num_rows * row_tokens)),
        targets(inputs.size()) {}

  std::int64_t batch_size = 0;        // B
  std::int64_t seq_len = 0;           // T
  std::vector<std::int32_t> inputs;   // [B,T]
  std::vector<std::int32_t> targets;  // [B,T]: targets[b,t] follows inputs[b,t] in the corpus
  std::int64_t first_sample = 0;      // global number of row 0; row b is sample first_sample + b
};

}  // namespace tessera
