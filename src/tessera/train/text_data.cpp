// data.kind = text.
#include <algorithm>
#include <memory>

#include "tessera/base/atomic_file.h"
#include "tessera/base/created_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/usable_cores.h"
#include "tessera/data/text_blocks.h"
#include "tessera/train/data_kinds.h"
#include "tessera/train/run_tokenizer.h"

namespace tessera {
namespace {

using Blocks = std::shared_ptr<const IndexedDataset>;

std::filesystem::path cache_folder(const DataKeys& keys, const std::vector<std::string>& texts) {
  return keys.cache.empty() ? std::filesystem::path(texts[0]).parent_path() / "tessera_blocks"
                            : std::filesystem::path(keys.cache);
}

struct Texts {
  const char* key;  // that gives them
  const std::vector<std::string>& files;
};

TextBlockFiles blocks_of(const DataRequest& request, const Tokenizer& tokenizer, const Texts& texts) {
  const DataKeys& keys = request.config.data;
  TextBlockOptions options;
  options.block_size = request.config.train.seq_len;
  options.keep_newlines = keys.keep_newlines;
  options.json_key = keys.json_key;
  options.vocab_size = tokenizer.vocab_size();
  options.begin_of_text = tokenizer.begin_of_text();
  options.tokenizer = tokenizer_stamp(keys.tokenizer);
  const std::vector<std::filesystem::path> files(texts.files.begin(), texts.files.end());
  ThreadPool pool(num_threads(request.config.threads));
  const std::filesystem::path folder = cache_folder(keys, texts.files);
  const auto found = request.named_by(texts.key, [&] { return find_text_blocks(files, folder, options); });
  if (found) return *found;
  check_can_write_into(folder, "data.cache");
  return request.named_by(
      texts.key, [&] { return ensure_text_blocks(pool, files, folder, options, encoders_of(tokenizer)); });
}

// One rank makes the blocks; the others find them made.
Blocks open_blocks(const DataRequest& request, const Tokenizer& tokenizer, const Texts& texts) {
  request.make_once([&] {
    const CreatedFolder created(cache_folder(request.config.data, texts.files), "data.cache");
    request.options.message(blocks_of(request, tokenizer, texts).message);
  });
  return std::make_shared<const IndexedDataset>(blocks_of(request, tokenizer, texts).prefix);
}

Samples samples_of(const DataRequest& request, const Blocks& blocks, SampleRange range, bool shuffle) {
  std::optional<std::uint64_t> seed;
  if (shuffle) seed = static_cast<std::uint64_t>(request.config.train.seed);
  const auto rows = std::make_shared<const TextBlocks>(blocks, request.config.train.seq_len,
                                                       request.vocab_size, seed, range);
  return {[rows](std::int64_t first, Batch& batch) { rows->fill(first, batch); }, rows->samples_per_epoch()};
}

}  // namespace

RunData open_text_data(const DataRequest& request) {
  const DataKeys& keys = request.config.data;
  TS_CHECK(!keys.tokenizer.empty(), "data.tokenizer is empty: data.kind = text needs one");
  TS_CHECK(request.config.train.seq_len >= 2,
           "train.seq_len: found {}, expected at least 2 with data.kind = text: a block's last token has no "
           "target",
           request.config.train.seq_len);
  const std::unique_ptr<Tokenizer> tokenizer = open_run_tokenizer(keys);
  const bool own_valid = !keys.valid_texts.empty();
  RunData data;
  if (request.options.valid && own_valid) {
    const Blocks blocks = open_blocks(request, *tokenizer, {"data.valid_texts", keys.valid_texts});
    data.valid = samples_of(request, blocks, {0, blocks->num_sequences()}, false);
  }
  if (!request.options.train && (own_valid || !request.options.valid)) return data;
  TS_CHECK(!keys.texts.empty(), "data.texts is empty: expected files of plain text or JSON lines");
  const Blocks blocks = open_blocks(request, *tokenizer, {"data.texts", keys.texts});
  const SampleSplit split = hold_out(blocks->num_sequences(), own_valid ? 0.0 : keys.valid_fraction);
  TS_CHECK(split.train.size() > 0,
           "data.valid_fraction = {} leaves no training block: {} has {} of {} tokens", keys.valid_fraction,
           blocks->bin_file().string(), blocks->num_sequences(), request.config.train.seq_len);
  if (request.options.valid && split.valid.size() > 0)
    data.valid = samples_of(request, blocks, split.valid, false);
  if (request.options.train) data.train = samples_of(request, blocks, split.train, keys.shuffle);
  return data;
}

}  // namespace tessera
