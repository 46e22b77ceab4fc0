#include "tessera/data/token_batches.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/data/sample_order.h"

namespace tessera {

SampleSplit split_samples(const IndexedDataset& corpus, std::int64_t seq_len, double valid_fraction) {
  const std::string file = corpus.bin_file().string();
  TS_CHECK(seq_len >= 1, "seq_len: found {}, expected at least 1", seq_len);
  TS_CHECK(valid_fraction >= 0 && valid_fraction < 1, "valid_fraction: found {}, expected 0 <= fraction < 1",
           valid_fraction);
  const std::int64_t num_samples = (corpus.num_tokens() - 1) / seq_len;
  TS_CHECK(num_samples >= 1, "{}: found {} tokens, expected at least seq_len + 1 = {} for one sample", file,
           corpus.num_tokens(), seq_len + 1);
  const SampleSplit split = hold_out(num_samples, valid_fraction);
  TS_CHECK(split.train.size() > 0,
           "{}: holding out a fraction of {} leaves no training sample: the corpus has {} of {} tokens", file,
           valid_fraction, num_samples, seq_len);
  return split;
}

TokenBatches::TokenBatches(std::shared_ptr<const IndexedDataset> corpus, SampleRange range,
                           const TokenBatchOptions& options)
    : corpus_(std::move(corpus)), range_(range), options_(options) {
  TS_CHECK(options_.seq_len >= 1, "seq_len: found {}, expected at least 1", options_.seq_len);
  TS_CHECK(options_.vocab_size >= 1, "vocab_size: found {}, expected at least 1", options_.vocab_size);
  TS_CHECK(range_.size() >= 1, "{}: no samples to read (found the range {} to {})",
           corpus_->bin_file().string(), range_.begin, range_.end);
  TS_ASSERT(range_.begin >= 0 && range_.end * options_.seq_len < corpus_->num_tokens());
}

void TokenBatches::fill(std::int64_t first_sample, Batch& batch) const {
  TS_ASSERT(first_sample >= 0 && batch.seq_len == options_.seq_len);
  const auto seq_len = static_cast<std::size_t>(options_.seq_len);
  batch.first_sample = first_sample;
  for (std::int64_t row = 0; row < batch.batch_size; ++row) {
    const std::int64_t number = first_sample + row;
    const std::int64_t sample = options_.shuffle_seed
                                    ? sample_at(*options_.shuffle_seed, samples_per_epoch(), number)
                                    : number % samples_per_epoch();
    const std::int64_t start = (range_.begin + sample) * options_.seq_len;
    const auto offset = static_cast<std::size_t>(row) * seq_len;
    const auto inputs = std::span(batch.inputs).subspan(offset, seq_len);
    const auto targets = std::span(batch.targets).subspan(offset, seq_len);
    copy_checked(start, inputs);
    std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
    copy_checked(start + options_.seq_len, targets.last(1));
  }
}

void TokenBatches::copy_checked(std::int64_t first_token, std::span<std::int32_t> out) const {
  corpus_->copy_tokens(first_token, out);
  const auto in_vocabulary = [&](std::int32_t id) { return id >= 0 && id < options_.vocab_size; };
  int strangers = 0;  // counted without leaving the loop, so that it vectorises
  for (const std::int32_t id : out) strangers += !in_vocabulary(id);
  if (strangers == 0) return;
  const auto found = std::find_if_not(out.begin(), out.end(), in_vocabulary);
  fail("{}: token {} is id {}, but the model's vocabulary has {} ids", corpus_->bin_file().string(),
       first_token + (found - out.begin()), *found, options_.vocab_size);
}

}  // namespace tessera
