#include "tessera/data/joined_dataset.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/batch_rows.h"

namespace tessera {

JoinedDataset::JoinedDataset(std::vector<std::shared_ptr<const GptDataset>> corpora)
    : corpora_(std::move(corpora)) {
  TS_ASSERT(!corpora_.empty());
  for (const auto& corpus : corpora_) {
    TS_ASSERT(corpus->seq_len() == corpora_[0]->seq_len());
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + corpus->num_samples());
  }
}

void JoinedDataset::fill(std::int64_t first_sample, Batch& batch) const {
  const auto copy = [&](std::int64_t number, std::int64_t first, std::span<std::int32_t> out) {
    const std::int64_t sample = number % num_samples();
    const auto corpus =
        static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), sample) - ends_.begin());
    corpora_[corpus]->copy_sample(sample - (corpus == 0 ? 0 : ends_[corpus - 1]), first, out);
  };
  fill_rows(first_sample, corpora_[0]->seq_len(), batch, copy);
}

}  // namespace tessera
