#include "tessera/text/tokenizer.h"

#include "tessera/base/error.h"
#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/hf_tokenizer.h"
#include "tessera/text/sentencepiece_tokenizer.h"
#include "tessera/text/wordpiece_tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "expected a tokenizer.json, a SentencePiece .model, a WordPiece vocab.txt, or a folder with vocab.json "
    "and "
    "merges.txt";

constexpr const char* kFileNames[] = {"tokenizer.json", "tokenizer.model", "vocab.txt"};

std::unique_ptr<Tokenizer> open_folder(const fs::path& folder) {
  const std::vector<TokenizerFile> files = tokenizer_files(folder);
  if (files.size() == 1) return open_tokenizer(files[0].path);
  if (!files.empty() || fs::exists(folder / "vocab.json") || fs::exists(folder / "merges.txt"))
    return std::make_unique<BpeTokenizer>(BpeTokenizer::load(folder));  // names what is missing
  fail("{}: the folder holds no tokenizer; {}", folder.string(), kExpected);
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  make_encoder()->encode(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    check_id(ids[i], i);
    text += text_of(ids[i]);
  }
  return text;
}

void Tokenizer::check_id(std::int32_t id, std::size_t position) const {
  TS_CHECK(id >= 0 && id < vocab_size(), "cannot decode id {} at position {}: the vocabulary has {} tokens",
           id, position, vocab_size());
}

std::vector<TokenizerFile> tokenizer_files(const fs::path& path) {
  if (!fs::is_directory(path)) {
    for (const fs::path name : kFileNames) {
      if (path.extension() == name.extension()) return {{name.string(), path}};
    }
    return {};
  }
  if (fs::exists(path / "vocab.json") && fs::exists(path / "merges.txt"))
    return {{"vocab.json", path / "vocab.json"}, {"merges.txt", path / "merges.txt"}};
  for (const char* name : kFileNames) {
    if (fs::exists(path / name)) return {{name, path / name}};
  }
  return {};
}

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& path) {
  TS_CHECK(fs::exists(path), "no tokenizer at {}: no such file or folder", path.string());
  if (fs::is_directory(path)) return open_folder(path);
  const std::string extension = path.extension().string();
  if (extension == ".json") {
    TS_CHECK(path.filename() != "vocab.json", "{}: name the folder that holds vocab.json and merges.txt",
             path.string());
    return std::make_unique<HfTokenizer>(HfTokenizer::load(path));
  }
  if (extension == ".model") return std::make_unique<SentencepieceTokenizer>(path);
  if (extension == ".txt") {
    TS_CHECK(path.filename() != "merges.txt", "{}: name the folder that holds vocab.json and merges.txt",
             path.string());
    return std::make_unique<WordpieceTokenizer>(WordpieceTokenizer::load(path));
  }
  fail("{}: not a tokenizer by its name; {}", path.string(), kExpected);
}

void check_vocabulary_fits(const Tokenizer& tokenizer, const fs::path& path, std::int64_t model_vocab_size) {
  TS_CHECK(tokenizer.vocab_size() <= model_vocab_size,
           "{}: found a tokenizer of {} ids, expected at most {}, the model's vocabulary", path.string(),
           tokenizer.vocab_size(), model_vocab_size);
}

}  // namespace tessera
