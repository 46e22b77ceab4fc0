// data.kind = tokens.
#include <memory>

#include "tessera/base/error.h"
#include "tessera/data/token_batches.h"
#include "tessera/train/data_kinds.h"

namespace tessera {
namespace {

std::shared_ptr<const IndexedDataset> open_corpus(const DataRequest& request, const char* key,
                                                  const std::string& prefix) {
  return request.named_by(key, [&] { return std::make_shared<const IndexedDataset>(prefix); });
}

Samples samples_of(std::shared_ptr<const IndexedDataset> corpus, SampleRange range,
                   const TokenBatchOptions& options) {
  const auto batches = std::make_shared<const TokenBatches>(std::move(corpus), range, options);
  return {[batches](std::int64_t first, Batch& batch) { batches->fill(first, batch); },
          batches->samples_per_epoch()};
}

}  // namespace

RunData open_token_data(const DataRequest& request) {
  const DataKeys& keys = request.config.data;
  const std::int64_t seq_len = request.config.train.seq_len;
  TS_CHECK(!keys.prefix.empty(),
           "data.prefix is empty: expected the path of a .bin/.idx pair without its ending");
  const auto corpus = open_corpus(request, "data.prefix", keys.prefix);
  const bool own_valid = !keys.valid_prefix.empty();
  const SampleSplit split = split_samples(*corpus, seq_len, own_valid ? 0.0 : keys.valid_fraction);
  TokenBatchOptions options{.seq_len = seq_len, .vocab_size = request.vocab_size};
  RunData data;
  if (request.options.valid && own_valid) {
    const auto valid = open_corpus(request, "data.valid_prefix", keys.valid_prefix);
    data.valid = samples_of(valid, split_samples(*valid, seq_len, 0.0).train, options);
  } else if (request.options.valid && split.valid.size() > 0) {
    data.valid = samples_of(corpus, split.valid, options);
  }
  if (!request.options.train) return data;
  if (keys.shuffle) options.shuffle_seed = static_cast<std::uint64_t>(request.config.train.seed);
  data.train = samples_of(corpus, split.train, options);
  return data;
}

}  // namespace tessera
