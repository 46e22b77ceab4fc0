#include "tessera/data/blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/batch_rows.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxBins = 100;

std::string listed(const std::vector<double>& weights) {
  std::string text;
  for (const double weight : weights) text += fmt::format("{}{}", text.empty() ? "" : ", ", weight);
  return text;
}

std::vector<double> shares_of(const std::vector<double>& weights) {
  TS_CHECK(!weights.empty(), "a blend needs at least one corpus with its weight");
  for (const double weight : weights) {
    TS_CHECK(std::isfinite(weight) && weight >= 0, "blend: found the weights {}, expected 0 or more each",
             listed(weights));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  TS_CHECK(sum > 0, "blend: the weights {} add up to 0", listed(weights));
  std::vector<double> shares = weights;
  for (double& share : shares) share /= sum;
  return shares;
}

std::vector<std::int64_t> sizes_of(const std::vector<std::shared_ptr<const GptDataset>>& corpora) {
  std::vector<std::int64_t> sizes;
  for (const auto& corpus : corpora) {
    TS_CHECK(corpus->seq_len() == corpora[0]->seq_len(), "blend: found samples of {} and of {} tokens",
             corpora[0]->seq_len(), corpus->seq_len());
    sizes.push_back(corpus->num_samples());
  }
  return sizes;
}

}  // namespace

std::vector<std::int64_t> blend_sample_counts(std::int64_t num_samples, const std::vector<double>& weights) {
  std::vector<std::int64_t> counts;
  for (const double share : shares_of(weights)) {
    counts.push_back(static_cast<std::int64_t>(std::ceil(static_cast<double>(num_samples) * share * 1.005)));
  }
  return counts;
}

Blend::Blend(const std::vector<double>& weights, std::vector<std::int64_t> corpus_samples, std::int64_t size)
    : bins_of_corpus_(weights.size()), corpus_samples_(std::move(corpus_samples)), size_(size) {
  const std::vector<double> shares = shares_of(weights);
  TS_CHECK(corpus_samples_.size() == weights.size(), "blend: found {} corpora and {} weights",
           corpus_samples_.size(), weights.size());
  TS_CHECK(size >= 1, "blend: found a size of {} samples, expected at least 1", size);
  const std::int64_t num_bins = std::min(kMaxBins, size);
  for (std::size_t corpus = 0; corpus < shares.size(); ++corpus) {
    const auto count = static_cast<std::int64_t>(shares[corpus] * static_cast<double>(num_bins));
    for (std::int64_t i = 0; i < count; ++i) bins_.push_back({corpus, i});
  }
  // The original goes on counting from the number of its last bin, not after it: that sample comes twice a
  // round and one is left out. Kept, for a run to see the samples it knows.
  std::int64_t next = bins_.empty() ? 0 : bins_.back().first;
  while (std::ssize(bins_) < num_bins) bins_.push_back({shares.size() - 1, next++});
  for (const Bin& bin : bins_) ++bins_of_corpus_[bin.corpus];
  for (std::size_t corpus = 0; corpus < shares.size(); ++corpus) {
    TS_CHECK(bins_of_corpus_[corpus] > 0,
             "blend: corpus {} has a share of {}, expected at least 1 of {} samples", corpus, shares[corpus],
             num_bins);
    TS_CHECK(corpus_samples_[corpus] > 0, "blend: corpus {} has no samples", corpus);
  }
}

Blend::Place Blend::at(std::int64_t number) const {
  TS_ASSERT(number >= 0);
  const std::int64_t num_bins = std::ssize(bins_);
  const Bin& bin = bins_[static_cast<std::size_t>(number % num_bins)];
  const std::int64_t sample = bin.first + number / num_bins * bins_of_corpus_[bin.corpus];
  return {bin.corpus, sample % corpus_samples_[bin.corpus]};
}

BlendedDataset::BlendedDataset(std::vector<std::shared_ptr<const GptDataset>> corpora,
                               const std::vector<double>& weights, std::int64_t size)
    : corpora_(std::move(corpora)), blend_(weights, sizes_of(corpora_), size) {}

void BlendedDataset::copy_sample(std::int64_t number, std::int64_t first, std::span<std::int32_t> out) const {
  const Blend::Place place = blend_.at(number);
  corpora_[place.corpus]->copy_sample(place.sample, first, out);
}

void BlendedDataset::fill(std::int64_t first_sample, Batch& batch) const {
  const auto copy = [&](std::int64_t number, std::int64_t first, std::span<std::int32_t> out) {
    copy_sample(number % num_samples(), first, out);
  };
  fill_rows(first_sample, corpora_[0]->seq_len(), batch, copy);
}

}  // namespace tessera
