#include "tessera/train/run_data.h"

#include "tessera/base/error.h"
#include "tessera/text/bpe_tokenizer.h"

namespace tessera {

std::int64_t tokenizer_vocab_size(const RunConfig& config) {
  return config.data.tokenizer.empty() ? 0 : BpeTokenizer::load(config.data.tokenizer).vocab_size();
}

RunData open_run_data(const RunConfig& config) {
  TS_CHECK(!config.data.prefix.empty(), "data.prefix is empty: expected the path of a .bin/.idx pair without its ending");
  RunData data;
  data.tokenizer_vocab_size = tokenizer_vocab_size(config);
  data.train = std::make_shared<IndexedDataset>(config.data.prefix);
  const bool own_valid = !config.data.valid_prefix.empty();
  const SampleSplit split =
      split_samples(*data.train, config.train.seq_len, own_valid ? 0.0 : config.data.valid_fraction);
  data.train_samples = split.train;
  data.valid_samples = split.valid;
  data.valid = data.train;
  if (own_valid) {
    data.valid = std::make_shared<IndexedDataset>(config.data.valid_prefix);
    data.valid_samples = split_samples(*data.valid, config.train.seq_len, 0.0).train;
  }
  return data;
}

}  // namespace tessera
