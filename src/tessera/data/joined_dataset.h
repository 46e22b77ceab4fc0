// JoinedDataset: several corpora read one after the other, each of their samples once. What is held out of a
// blend: its weights say how often a corpus is trained on, not how much of it there is to be validated on.
//
// Made by the training set-up; read as a GptDataset is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/data/batch.h"
#include "tessera/data/gpt_dataset.h"

namespace tessera {

class JoinedDataset {
 public:
  // At least one, all of one seq_len.
  explicit JoinedDataset(std::vector<std::shared_ptr<const GptDataset>> corpora);

  std::int64_t num_samples() const { return ends_.back(); }
  void fill(std::int64_t first_sample, Batch& batch) const;  // past the last sample the first comes again

 private:
  std::vector<std::shared_ptr<const GptDataset>> corpora_;
  std::vector<std::int64_t> ends_;  // of each corpus' samples
};

}  // namespace tessera
