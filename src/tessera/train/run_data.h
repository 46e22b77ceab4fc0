// RunData: the corpora of a run, opened, and which samples of them are for training and which for
// validation.
#pragma once

#include <memory>

#include "tessera/data/indexed_dataset.h"
#include "tessera/data/token_batches.h"
#include "tessera/train/run_config.h"

namespace tessera {

struct RunData {
  std::shared_ptr<const IndexedDataset> train, valid;
  SampleRange train_samples, valid_samples;  // no valid samples: evaluation is off
  std::int64_t tokenizer_vocab_size = 0;     // 0 without a tokenizer
};

RunData open_run_data(const RunConfig& config);

// The size of data.tokenizer's vocabulary, 0 if the key is empty.
std::int64_t tokenizer_vocab_size(const RunConfig& config);

}  // namespace tessera
