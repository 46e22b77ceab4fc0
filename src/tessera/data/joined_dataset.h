// JoinedDataset: several corpora, each of their samples once, spread evenly among each other, so that the
// first few are of all. What is held out of a blend: its weights say how often a corpus is trained on, not
// how much of it there is to be validated on.
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

  std::int64_t num_samples() const { return std::ssize(places_); }
  void fill(std::int64_t first_sample, Batch& batch) const;  // past the last sample the first comes again

 private:
  struct Place {
    std::uint32_t corpus = 0, sample = 0;
  };
  std::vector<std::shared_ptr<const GptDataset>> corpora_;
  std::vector<Place> places_;
};

}  // namespace tessera
