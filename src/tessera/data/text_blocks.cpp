#include "tessera/data/text_blocks.h"

#include <algorithm>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/created_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/philox.h"
#include "tessera/data/sample_order.h"
#include "tessera/data/text_block_builder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// All that the blocks depend on, one thing a line. Kept beside them and compared in full.
std::string description(const std::vector<fs::path>& files, const TextBlockOptions& options) {
  std::string text = fmt::format(
      "blocks of {} tokens from batches of {} texts\nnewlines kept: {}\nJSON key: {}\nformat: "
      "{}\nvocabulary: {}\n"
      "tokenizer: {}\n",
      options.block_size, options.texts_per_batch, options.keep_newlines, options.json_key,
      static_cast<int>(options.format), options.vocab_size, options.tokenizer);
  // No line where there is none: blocks that were made before this was a choice stay good.
  if (options.begin_of_text) text += fmt::format("before every text: {}\n", *options.begin_of_text);
  for (const fs::path& file : files) {
    // Once every other end was kept; which texts have one is not known without reading them.
    if (!is_json_corpus(file, options.format)) text += "lines end in \\n, \\r\\n or \\r; ";
    text += "text: " + file_stamp(file);
  }
  return text;
}

fs::path blocks_prefix(const fs::path& folder, const std::string& made_from) {
  return folder / fmt::format("blocks_{:016x}", name_hash(made_from));
}

fs::path sidecar_of(const fs::path& prefix) {
  return prefix.string() + ".txt";
}

bool was_made(const fs::path& prefix, const fs::path& sidecar, const std::string& made_from) {
  return fs::exists(bin_path(prefix)) && fs::exists(idx_path(prefix)) && fs::exists(sidecar) &&
         read_file(sidecar) == made_from;
}

}  // namespace

std::string file_stamp(const fs::path& path) {
  const std::int64_t size = regular_file_bytes(path);
  const auto changed = fs::last_write_time(path).time_since_epoch().count();
  return fmt::format("{}, {} bytes, changed {}\n", fs::absolute(path).lexically_normal().string(), size,
                     changed);
}

std::optional<TextBlockFiles> find_text_blocks(const std::vector<fs::path>& files, const fs::path& folder,
                                               const TextBlockOptions& options) {
  const std::string made_from = description(files, options);
  const fs::path prefix = blocks_prefix(folder, made_from);
  if (!was_made(prefix, sidecar_of(prefix), made_from)) return std::nullopt;
  TextBlockFiles blocks{.prefix = prefix, .reused = true};
  blocks.num_blocks = IndexedDataset(prefix).num_sequences();
  blocks.message =
      fmt::format("reusing {} blocks of {} tokens in {}.bin: the texts and the tokenizer have not changed",
                  blocks.num_blocks, options.block_size, prefix.string());
  return blocks;
}

TextBlockFiles ensure_text_blocks(ThreadPool& pool, const std::vector<fs::path>& files,
                                  const fs::path& folder, const TextBlockOptions& options,
                                  const EncoderFactory& make_encoder) {
  TS_CHECK(options.block_size >= 2, "block_size: found {}, expected at least 2", options.block_size);
  TS_CHECK(options.texts_per_batch >= 1, "texts_per_batch: found {}, expected at least 1",
           options.texts_per_batch);
  if (const auto found = find_text_blocks(files, folder, options)) return *found;
  const CreatedFolder created(folder);
  const std::string made_from = description(files, options);
  TextBlockFiles blocks{.prefix = blocks_prefix(folder, made_from)};
  const TextBlockSummary summary = build_text_blocks(pool, files, blocks.prefix, options, make_encoder);
  write_file(sidecar_of(blocks.prefix), made_from);
  blocks.num_blocks = summary.num_blocks;
  blocks.message =
      fmt::format("made {} blocks of {} tokens from {} texts ({} tokens, {} of them left over) in {}.bin",
                  summary.num_blocks, options.block_size, summary.num_texts, summary.num_tokens,
                  summary.num_tokens - summary.num_blocks * options.block_size, blocks.prefix.string());
  return blocks;
}

TextBlocks::TextBlocks(std::shared_ptr<const IndexedDataset> blocks, std::int64_t block_size,
                       std::int64_t vocab_size, std::optional<std::uint64_t> shuffle_seed,
                       std::optional<SampleRange> range)
    : blocks_(std::move(blocks)),
      block_size_(block_size),
      vocab_size_(vocab_size),
      shuffle_seed_(shuffle_seed),
      range_(range.value_or(SampleRange{0, blocks_->num_sequences()})) {
  TS_ASSERT(range_.begin >= 0 && range_.end <= blocks_->num_sequences());
  const std::string file = blocks_->bin_file().string();
  TS_CHECK(vocab_size >= 1, "vocab_size: found {}, expected at least 1", vocab_size);
  TS_CHECK(range_.size() >= 1, "{}: found no block", file);
  for (std::int64_t i = 0; i < blocks_->num_sequences(); ++i) {
    TS_CHECK(blocks_->sequence_tokens(i) == block_size, "{}: block {} has {} tokens, expected {}", file, i,
             blocks_->sequence_tokens(i), block_size);
  }
}

void TextBlocks::fill(std::int64_t first_sample, Batch& batch) const {
  TS_ASSERT(first_sample >= 0 && batch.seq_len == block_size_);
  batch.first_sample = first_sample;
  const auto size = static_cast<std::size_t>(block_size_);
  for (std::int64_t row = 0; row < batch.batch_size; ++row) {
    const std::int64_t number = first_sample + row;
    const std::int64_t block =
        range_.begin + (shuffle_seed_ ? sample_at(*shuffle_seed_, samples_per_epoch(), number)
                                      : number % samples_per_epoch());
    const auto inputs = std::span(batch.inputs).subspan(static_cast<std::size_t>(row) * size, size);
    const auto targets = std::span(batch.targets).subspan(static_cast<std::size_t>(row) * size, size);
    blocks_->copy_tokens(block * block_size_, inputs);
    for (const std::int32_t id : inputs) {
      TS_CHECK(id >= 0 && id < vocab_size_, "{}: block {} has id {}, but the model's vocabulary has {} ids",
               blocks_->bin_file().string(), block, id, vocab_size_);
    }
    std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
    targets.back() = kNotScored;
  }
}

}  // namespace tessera
