// TokenBatches: batches of consecutive tokens of a corpus, as a pure function of the global sample number.
//
// Sample i is the seq_len + 1 tokens of the concatenated stream from token i * seq_len on: seq_len inputs
// and, one further, their targets. Consecutive samples share that one token, so every token but the first
// is predicted exactly once an epoch; documents are not separated beyond their end-of-document id.
// Made by the training and evaluation set-up over an IndexedDataset; read through a PrefetchLoader.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/data/batch.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/sample_range.h"

namespace tessera {

// Throws Error when the corpus has no sample of this length, or too few for both parts. Any
// valid_fraction above 0 holds out at least one sample. With a corpus of its own for validation, split
// each with fraction 0 and take `train` of both.
SampleSplit split_samples(const IndexedDataset& corpus, std::int64_t seq_len, double valid_fraction);

struct TokenBatchOptions {
  std::int64_t seq_len = 0;
  std::int64_t vocab_size = 0;                  // of the model: a larger id in the corpus is refused
  std::optional<std::uint64_t> shuffle_seed{};  // without one: samples in the order of the corpus
};

class TokenBatches {
 public:
  TokenBatches(std::shared_ptr<const IndexedDataset> corpus, SampleRange range,
               const TokenBatchOptions& options);

  std::int64_t samples_per_epoch() const { return range_.size(); }

  // Fills the rows with samples first_sample, first_sample + 1, ...; past the last sample the next epoch
  // begins, inside a batch too. Does not allocate. Throws Error naming file, position and id when an id
  // is not of the vocabulary.
  void fill(std::int64_t first_sample, Batch& batch) const;

 private:
  void copy_checked(std::int64_t first_token, std::span<std::int32_t> out) const;

  std::shared_ptr<const IndexedDataset> corpus_;
  SampleRange range_;
  TokenBatchOptions options_;
};

}  // namespace tessera
