#include "tessera/text/tokenizer.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/hf_tokenizer.h"
#include "tessera/text/sentencepiece_tokenizer.h"
#include "tessera/text/tokenizer_config.h"
#include "tessera/text/wordpiece_tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "expected a tokenizer.json, a SentencePiece .model, a WordPiece vocab.txt, or a folder with vocab.json "
    "and merges.txt";

// A folder of transformers' holds a tokenizer in several forms. The first two are read for what they are,
// while the tokenizer.json beside them is of a kind that is not. vocab.json and merges.txt come after all,
// for they do not say how a text is split: a tokenizer.json does.
constexpr const char* kFileNames[] = {"tokenizer.model", "vocab.txt", "tokenizer.json"};
constexpr const char* kVocab = "vocab.json";
constexpr const char* kMerges = "merges.txt";

void add_if_there(const fs::path& folder, const char* name, std::vector<TokenizerFile>& files) {
  if (fs::exists(folder / name)) files.push_back({name, folder / name});
}

// What such a file is read with.
std::vector<TokenizerFile> with_config(std::string usual_name, const fs::path& path) {
  std::vector<TokenizerFile> files = {{std::move(usual_name), path}};
  if (files[0].usual_name == "tokenizer.model") add_if_there(path.parent_path(), kTokenizerConfigFile, files);
  return files;
}

// Qwen2's and others' files look the same and their texts are split in another way: other ids, in silence.
void check_is_split_as_gpt2(const fs::path& folder) {
  const std::optional<std::string> found = read_tokenizer_config(folder).tokenizer_class;
  TS_CHECK(
      !found || *found == "GPT2Tokenizer" || *found == "GPT2TokenizerFast",
      "{}: found the tokenizer_class {} for vocab.json and merges.txt, which alone are split as GPT-2's: "
      "expected GPT2Tokenizer or GPT2TokenizerFast, or a tokenizer.json beside them",
      (folder / kTokenizerConfigFile).string(), *found);
}

std::unique_ptr<Tokenizer> open_folder(const fs::path& folder) {
  const std::vector<TokenizerFile> files = tokenizer_files(folder);
  if (!files.empty() && files[0].usual_name != kVocab) return open_tokenizer(files[0].path);
  if (!files.empty() || fs::exists(folder / kVocab) || fs::exists(folder / kMerges)) {
    check_is_split_as_gpt2(folder);
    return std::make_unique<BpeTokenizer>(BpeTokenizer::load(folder));  // names what is missing
  }
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
      if (path.extension() == name.extension()) return with_config(name.string(), path);
    }
    return {};
  }
  for (const char* name : kFileNames) {
    if (fs::exists(path / name)) return with_config(name, path / name);
  }
  std::vector<TokenizerFile> files;
  if (!fs::exists(path / kVocab) || !fs::exists(path / kMerges)) return files;
  for (const char* name : {kVocab, kMerges, kTokenizerConfigFile}) add_if_there(path, name, files);
  return files;
}

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& path) {
  TS_CHECK(fs::exists(path), "no tokenizer at {}: no such file or folder", path.string());
  if (fs::is_directory(path)) return open_folder(path);
  const std::string extension = path.extension().string();
  if (extension == ".json") {
    TS_CHECK(path.filename() != kVocab, "{}: name the folder that holds vocab.json and merges.txt",
             path.string());
    return std::make_unique<HfTokenizer>(HfTokenizer::load(path));
  }
  if (extension == ".model") return std::make_unique<SentencepieceTokenizer>(path);
  if (extension == ".txt") {
    TS_CHECK(path.filename() != kMerges, "{}: name the folder that holds vocab.json and merges.txt",
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
