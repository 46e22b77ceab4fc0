// Text and JSON lines cut into blocks of one length, as the run_clm examples of Hugging Face group them; kept
// on disk and used again while nothing changed.
//
// Each line of a text (with its newline, which in Python may be "\r\n" or "\r" in the file), or the text of
// each JSON line, is encoded on its own, behind the token that begins texts where the tokenizer has one; the
// ids of 1000 of them at a time are laid end to end and cut into blocks, and what is left over of each
// thousand is dropped. A thousand that does not fill one block is dropped too, where run_clm would keep one
// shorter block. Made by `tessera data blocks` or the training set-up through ensure_text_blocks; TextBlocks
// reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/thread_pool.h"
#include "tessera/data/batch.h"
#include "tessera/data/corpus_builder.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/sample_range.h"

namespace tessera {

struct TextBlockOptions {
  std::int64_t block_size = 1024;  // tokens
  std::int64_t texts_per_batch = 1000;
  bool keep_newlines = true;  // of a text's lines
  CorpusFormat format = CorpusFormat::by_extension;
  std::string json_key = "text";
  std::int64_t vocab_size = 0;                // of the tokenizer
  std::optional<std::int32_t> begin_of_text;  // put before every text
  // What identifies the tokenizer: blocks made with another one are not used again. See file_stamp; its own
  // files alone, for the blocks may lie in its folder.
  std::string tokenizer;
};

// "PATH, N bytes, changed T" and a newline.
std::string file_stamp(const std::filesystem::path& path);

struct TextBlockFiles {
  std::filesystem::path prefix;  // of the .bin and .idx: one sequence per block
  bool reused = false;
  std::int64_t num_blocks = 0;
  std::string message;  // "reusing 114248 blocks of 1024 tokens in cache/blocks_...", or that they were made
};

// Those that an earlier call has made of these files. Throws Error for a missing one.
std::optional<TextBlockFiles> find_text_blocks(const std::vector<std::filesystem::path>& files,
                                               const std::filesystem::path& folder,
                                               const TextBlockOptions& options);

// Makes the blocks of the files in the folder, or finds them there. Throws Error for a missing file, a bad
// JSON line, an id outside of the vocabulary, and for texts that do not fill a block.
TextBlockFiles ensure_text_blocks(ThreadPool& pool, const std::vector<std::filesystem::path>& files,
                                  const std::filesystem::path& folder, const TextBlockOptions& options,
                                  const EncoderFactory& make_encoder);

class TextBlocks {
 public:
  // Throws Error when the corpus is not of blocks of this size. Without a seed: in the order of the texts.
  // Without a range: all blocks.
  TextBlocks(std::shared_ptr<const IndexedDataset> blocks, std::int64_t block_size, std::int64_t vocab_size,
             std::optional<std::uint64_t> shuffle_seed, std::optional<SampleRange> range = {});

  std::int64_t samples_per_epoch() const { return range_.size(); }

  // A row is one block; the target of its last token is kNotScored, for what follows is in another block.
  void fill(std::int64_t first_sample, Batch& batch) const;

 private:
  std::shared_ptr<const IndexedDataset> blocks_;
  std::int64_t block_size_;
  std::int64_t vocab_size_;
  std::optional<std::uint64_t> shuffle_seed_;
  SampleRange range_;
};

}  // namespace tessera
