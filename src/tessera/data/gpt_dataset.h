// GptDataset: a corpus read in NeMo's order, through the maps of a GptIndex.
//
// Made by the training set-up on every rank once the maps are built, or by a BlendedDataset; read through a
// PrefetchLoader. All methods are const and may be called from many threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tessera/data/batch.h"
#include "tessera/data/gpt_index.h"
#include "tessera/data/indexed_dataset.h"

namespace tessera {

class GptDataset {
 public:
  // vocab_size is the model's: a larger id in the corpus is refused where it is met.
  GptDataset(std::shared_ptr<const IndexedDataset> corpus, const GptIndexRequest& request,
             const GptIndexFiles& files, std::int64_t vocab_size);

  std::int64_t num_samples() const { return index_.num_samples(); }
  std::int64_t seq_len() const { return request_.seq_len; }

  // A sample has seq_len + 1 tokens: the inputs, and one further the targets. Copies those from `first` on of
  // sample `number` in the shuffled order.
  void copy_sample(std::int64_t number, std::int64_t first, std::span<std::int32_t> out) const;

  // Rows are samples first_sample, first_sample + 1, ...; past the last one the first comes again.
  void fill(std::int64_t first_sample, Batch& batch) const;

 private:
  void copy_tokens(std::int64_t document, std::int64_t offset, std::span<std::int32_t> out) const;

  std::shared_ptr<const IndexedDataset> corpus_;
  GptIndexRequest request_;
  GptIndex index_;
  std::int64_t vocab_size_;
};

// The maps are built if one of the files is missing: true if they were. For one rank; the others wait until
// it is done and then open a GptDataset.
bool ensure_gpt_index(const IndexedDataset& corpus, const GptIndexRequest& request,
                      const GptIndexFiles& files);

}  // namespace tessera
