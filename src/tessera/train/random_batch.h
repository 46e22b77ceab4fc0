// RandomBatch: a global batch without data, for measurements: every input that a model reads, filled with
// random numbers of its range. Sequences are whole, and every token is scored.
#pragma once

#include <vector>

#include "tessera/models/model.h"
#include "tessera/train/micro_batch.h"

namespace tessera {

class RandomBatch {
 public:
  // A function of its arguments alone.
  RandomBatch(const Model& model, std::span<const ExpectedInput> expected, std::int64_t num_sequences,
              std::int64_t seq_len);

  const std::vector<BatchInput>& inputs() const { return inputs_; }

 private:
  std::vector<std::vector<std::int32_t>> values_;
  std::vector<BatchInput> inputs_;
};

}  // namespace tessera
