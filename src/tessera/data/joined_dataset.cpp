#include "tessera/data/joined_dataset.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/batch_rows.h"

namespace tessera {

// Sample j of n stands at the share (j + 1/2) / n of the whole; of equals the first corpus comes first.
JoinedDataset::JoinedDataset(std::vector<std::shared_ptr<const GptDataset>> corpora)
    : corpora_(std::move(corpora)) {
  TS_ASSERT(!corpora_.empty());
  std::int64_t total = 0;
  for (const auto& corpus : corpora_) {
    TS_ASSERT(corpus->seq_len() == corpora_[0]->seq_len());
    total += corpus->num_samples();
  }
  std::vector<std::int64_t> taken(corpora_.size(), 0);
  const auto comes_before = [&](std::size_t a, std::size_t b) {
    return (2 * taken[a] + 1) * corpora_[b]->num_samples() < (2 * taken[b] + 1) * corpora_[a]->num_samples();
  };
  for (std::int64_t i = 0; i < total; ++i) {
    std::size_t next = 0;
    for (std::size_t c = 1; c < corpora_.size(); ++c) {
      if (comes_before(c, next)) next = c;
    }
    places_.push_back({static_cast<std::uint32_t>(next), static_cast<std::uint32_t>(taken[next]++)});
  }
}

void JoinedDataset::fill(std::int64_t first_sample, Batch& batch) const {
  const auto copy = [&](std::int64_t number, std::int64_t first, std::span<std::int32_t> out) {
    const Place& place = places_[static_cast<std::size_t>(number % num_samples())];
    corpora_[place.corpus]->copy_sample(place.sample, first, out);
  };
  fill_rows(first_sample, corpora_[0]->seq_len(), batch, copy);
}

}  // namespace tessera
