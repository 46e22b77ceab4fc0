#include "tessera/data/text_block_builder.h"

#include <algorithm>
#include <exception>
#include <span>

#include "tessera/base/error.h"
#include "tessera/data/corpus_pieces.h"
#include "tessera/data/indexed_dataset_writer.h"
#include "tessera/data/json_line.h"

namespace tessera {
namespace {

constexpr std::size_t kBatchesPerThread = 4;

struct Line {
  std::string_view text;  // with what ends it
  const MappedFile* file = nullptr;
  std::int64_t number = 0;  // in its file, from 1
  bool json = false;
};

// The lines of all files, one after the other; JSON lines that are blank are none. Those of a text end as in
// Python, in whose text files "\r\n" and "\r" are newlines too.
class Lines {
 public:
  Lines(const std::vector<std::filesystem::path>& paths, const TextBlockOptions& options) {
    for (const auto& path : paths) {
      files_.emplace_back(path);
      json_.push_back(is_json_corpus(path, options.format));
    }
  }

  bool next(Line& line) {
    while (file_ < files_.size()) {
      const std::string_view text = file_text(files_[file_]);
      if (at_ == text.size()) {
        ++file_;
        at_ = newline_end_ = 0;
        number_ = 0;
        continue;
      }
      const std::size_t end = line_end(text, json_[file_]);
      line = {text.substr(at_, end - at_), &files_[file_], ++number_, json_[file_]};
      at_ = end;
      if (!line.json || !is_blank(line.text)) return true;
    }
    return false;
  }

 private:
  // Behind the line that begins at at_. Where the next "\n" is is remembered: a file may have none.
  std::size_t line_end(std::string_view text, bool json) {
    if (newline_end_ <= at_) newline_end_ = std::min(text.find('\n', at_), text.size() - 1) + 1;
    const std::size_t size = json ? std::string_view::npos : text.substr(at_, newline_end_ - at_).find('\r');
    if (size == std::string_view::npos) return newline_end_;
    const std::size_t end = at_ + size + 1;
    return end + (text.substr(end).starts_with('\n') ? 1 : 0);
  }

  std::vector<MappedFile> files_;
  std::vector<bool> json_;
  std::size_t file_ = 0, at_ = 0, newline_end_ = 0;
  std::int64_t number_ = 0;
};

struct TextBatch {
  std::vector<Line> lines;
  std::vector<std::int32_t> tokens;
  std::exception_ptr error;
};

void encode_line(const Line& line, const TextBlockOptions& options, const EncodeFunction& encode,
                 std::vector<std::int32_t>& append_to) {
  if (options.begin_of_text) append_to.push_back(*options.begin_of_text);
  std::string text;
  if (!line.json) {
    const std::string_view bare = line.text.substr(0, line.text.find_last_not_of("\r\n") + 1);
    const std::string_view end = line.text.substr(bare.size());
    if (end.empty() || !options.keep_newlines) return encode(bare, append_to);
    if (end == "\n") return encode(line.text, append_to);
    return encode(text.append(bare).append("\n"), append_to);
  }
  try {
    text = json_line_text(line.text, options.json_key);
  } catch (const Error& error) {
    fail("{}:{}: {}", line.file->path().string(), line.number, error.what());
  }
  encode(text, append_to);
}

// Runs on a worker thread, which must not throw.
void encode_batch(TextBatch& batch, const TextBlockOptions& options, const EncodeFunction& encode) {
  batch.tokens.clear();
  batch.error = nullptr;
  try {
    for (const Line& line : batch.lines) encode_line(line, options, encode, batch.tokens);
    for (const std::int32_t id : batch.tokens) {
      TS_CHECK(id >= 0 && id < options.vocab_size, "{}: the tokenizer gave id {}, its vocabulary has {} ids",
               batch.lines[0].file->path().string(), id, options.vocab_size);
    }
  } catch (...) {
    batch.error = std::current_exception();
  }
}

}  // namespace

TextBlockSummary build_text_blocks(ThreadPool& pool, const std::vector<std::filesystem::path>& files,
                                   const std::filesystem::path& prefix, const TextBlockOptions& options,
                                   const EncoderFactory& make_encoder) {
  TS_CHECK(options.vocab_size >= 1, "vocab_size: found {}, expected at least 1", options.vocab_size);
  Lines lines(files, options);
  IndexedDatasetWriter writer(prefix, token_dtype_for_vocabulary(options.vocab_size));
  std::vector<EncodeFunction> encoders(static_cast<std::size_t>(pool.num_threads()));
  std::generate(encoders.begin(), encoders.end(), make_encoder);
  std::vector<TextBatch> batches(kBatchesPerThread * encoders.size());
  const auto block_size = static_cast<std::size_t>(options.block_size);

  TextBlockSummary summary;
  for (std::size_t num_batches = batches.size(); num_batches == batches.size();) {
    num_batches = 0;
    for (TextBatch& batch : batches) {
      batch.lines.clear();
      for (Line line; std::ssize(batch.lines) < options.texts_per_batch && lines.next(line);)
        batch.lines.push_back(line);
      if (batch.lines.empty()) break;
      ++num_batches;
    }
    pool.for_each_task(static_cast<std::int64_t>(num_batches), [&](std::int64_t task, int worker) {
      encode_batch(batches[static_cast<std::size_t>(task)], options,
                   encoders[static_cast<std::size_t>(worker)]);
    });
    for (const TextBatch& batch : std::span(batches).first(num_batches)) {
      if (batch.error) std::rethrow_exception(batch.error);
      const std::span<const std::int32_t> tokens(batch.tokens);
      for (std::size_t at = 0; at + block_size <= tokens.size(); at += block_size)
        writer.add_document(tokens.subspan(at, block_size));
      summary.num_texts += std::ssize(batch.lines);
      summary.num_tokens += std::ssize(tokens);
    }
  }
  summary.num_blocks = writer.num_documents();
  TS_CHECK(summary.num_blocks > 0,
           "found {} tokens in the {} texts of {} files, expected at least one block of {}",
           summary.num_tokens, summary.num_texts, files.size(), options.block_size);
  writer.finish(/*same_as_before=*/true);  // the prefix has a hash of all that blocks depend on
  return summary;
}

}  // namespace tessera
