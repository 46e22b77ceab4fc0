#include "tessera/train/run_tokenizer.h"

#include <span>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/checkpoint/file_digest.h"
#include "tessera/data/text_blocks.h"

namespace tessera {

std::unique_ptr<Tokenizer> open_run_tokenizer(const DataKeys& data) {
  try {
    return open_tokenizer(data.tokenizer);
  } catch (const Error& error) {
    fail("data.tokenizer: {}", error.what());
  }
}

std::int64_t tokenizer_vocab_size(const DataKeys& data) {
  return data.tokenizer.empty() ? 0 : open_run_tokenizer(data)->vocab_size();
}

void check_tokenizer_fits(const DataKeys& data, const Model& model) {
  if (data.tokenizer.empty()) return;
  check_vocabulary_fits(*open_run_tokenizer(data), data.tokenizer, model.vocab_size());
}

std::string tokenizer_stamp(const std::filesystem::path& path) {
  std::string stamp;
  for (const TokenizerFile& file : tokenizer_files(path)) stamp += file_stamp(file.path);
  return stamp;
}

std::string tokenizer_digest(const std::filesystem::path& path) {
  if (path.empty()) return "";
  DigestStream digest;
  for (const TokenizerFile& file : tokenizer_files(path)) {
    const std::string held = read_file(file.path);
    digest.update(std::as_bytes(std::span(held)));
  }
  return digest.finish().xxh3_128;
}

bool is_another_tokenizer(const std::filesystem::path& path, const std::string& digest) {
  return !digest.empty() && std::filesystem::exists(path) && tokenizer_digest(path) != digest;
}

EncoderFactory encoders_of(const Tokenizer& tokenizer) {
  return [&tokenizer]() -> EncodeFunction {
    return [encoder = std::shared_ptr<TextEncoder>(tokenizer.make_encoder())](
               std::string_view text, std::vector<std::int32_t>& ids) { encoder->encode(text, ids); };
  };
}

}  // namespace tessera
