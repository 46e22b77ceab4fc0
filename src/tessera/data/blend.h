// Blend: several corpora mixed by weights, as NeMo mixes them: of every 100 samples in a row, each has as
// many as its share says, rounded down; what is left over is the last corpus's.
//
// Made by the training set-up from the weights of the config; BlendedDataset reads through it. A pure
// function of the sample's number, without an array.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/data/batch.h"
#include "tessera/data/gpt_dataset.h"

namespace tessera {

// How many samples each corpus is asked for when the blend is to have num_samples: half a per cent more than
// its share. Throws Error for no weights, a negative one, or a sum of zero.
std::vector<std::int64_t> blend_sample_counts(std::int64_t num_samples, const std::vector<double>& weights);

class Blend {
 public:
  // corpus_samples: how many samples each corpus has. Throws Error when a corpus has no sample, or too small
  // a weight to get one of 100.
  Blend(const std::vector<double>& weights, std::vector<std::int64_t> corpus_samples, std::int64_t size);

  struct Place {
    std::size_t corpus = 0;
    std::int64_t sample = 0;  // of that corpus, in its own shuffled order
  };
  Place at(std::int64_t number) const;
  std::int64_t size() const { return size_; }

 private:
  struct Bin {
    std::size_t corpus = 0;
    std::int64_t first = 0;  // the sample it takes in the first round of all bins
  };
  std::vector<Bin> bins_;
  std::vector<std::int64_t> bins_of_corpus_;
  std::vector<std::int64_t> corpus_samples_;
  std::int64_t size_ = 0;
};

class BlendedDataset {
 public:
  // All of one seq_len.
  BlendedDataset(std::vector<std::shared_ptr<const GptDataset>> corpora, const std::vector<double>& weights,
                 std::int64_t size);

  std::int64_t num_samples() const { return blend_.size(); }
  void copy_sample(std::int64_t number, std::int64_t first, std::span<std::int32_t> out) const;
  void fill(std::int64_t first_sample, Batch& batch) const;  // past the last sample the first comes again

 private:
  std::vector<std::shared_ptr<const GptDataset>> corpora_;
  Blend blend_;
};

}  // namespace tessera
