#include "tessera/text/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/bpe_trainer.h"
#include "tessera/text/byte_alphabet.h"
#include "tessera/text/hf_tokenizer.h"
#include "tessera/text/wordpiece_tokenizer.h"
#include "text/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

void expect_refused(const fs::path& path, const std::vector<std::string>& parts) {
  try {
    open_tokenizer(path);
    ADD_FAILURE() << path << " was opened";
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// A tokenizer.json of the 256 bytes.
void write_tokenizer_json(const fs::path& path) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const auto character = static_cast<char>(byte);
    vocab[spell_bytes({&character, 1})] = byte;
  }
  const nlohmann::json file = {
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}};
  std::ofstream(path) << file.dump();
}

template <class T>
bool is_a(const std::unique_ptr<Tokenizer>& tokenizer) {
  return dynamic_cast<const T*>(tokenizer.get()) != nullptr;
}

TEST(OpenTokenizer, RecognisesAFolder) {
  const TemporaryFolder folder;
  save_bpe_vocabulary(train_bpe("some text, some words", {.vocab_size = 260}), folder.path());
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(folder.path());
  EXPECT_TRUE(is_a<BpeTokenizer>(tokenizer));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("words")), "words");
  fs::remove(folder.path() / "merges.txt");
  expect_refused(folder.path(), {"merges.txt", "No such file"});
  std::ofstream(folder.path() / "vocab.txt") << "[UNK]\n";
  EXPECT_TRUE(is_a<WordpieceTokenizer>(open_tokenizer(folder.path())));
}

// As transformers' folders of GPT-NeoX, BERT and Llama do: of the last two the tokenizer.json is of a kind
// that is not read.
TEST(OpenTokenizer, TakesTheFileThatSaysMostOfAFolderWithSeveral) {
  const TemporaryFolder folder;
  const fs::path& path = folder.path();
  const auto names = [&] {
    std::vector<std::string> found;
    for (const TokenizerFile& file : tokenizer_files(path)) {
      EXPECT_EQ(file.path, path / file.usual_name);
      found.push_back(file.usual_name);
    }
    return found;
  };
  using Names = std::vector<std::string>;
  save_bpe_vocabulary(train_bpe("some text, some words", {.vocab_size = 260}), path);
  EXPECT_EQ(names(), (Names{"vocab.json", "merges.txt"}));
  write_tokenizer_json(path / "tokenizer.json");
  EXPECT_TRUE(is_a<HfTokenizer>(open_tokenizer(path)));
  EXPECT_EQ(names(), Names{"tokenizer.json"});

  std::ofstream(path / "tokenizer.json") << R"({"model": {"type": "WordPiece"}})";
  expect_refused(path, {"tokenizer.json", "model is WordPiece, expected BPE"});
  std::ofstream(path / "vocab.txt") << "[UNK]\n";
  EXPECT_TRUE(is_a<WordpieceTokenizer>(open_tokenizer(path)));
  EXPECT_EQ(names(), Names{"vocab.txt"});

  std::ofstream(path / "tokenizer.model") << "no model";
  expect_refused(path, {"tokenizer.model", "not a SentencePiece model"});
  EXPECT_EQ(names(), Names{"tokenizer.model"});
}

// What a tokenizer is read with belongs to its files: a copy without it would be another one.
TEST(TokenizerFiles, ListTheConfigWhereItIsRead) {
  const TemporaryFolder folder;
  const fs::path& path = folder.path();
  const auto last = [](const fs::path& of) { return tokenizer_files(of).back().usual_name; };
  for (const char* name : {"vocab.json", "merges.txt", "small.model", "tokenizer_config.json"})
    std::ofstream(path / name) << "{}";
  EXPECT_EQ(last(path), "tokenizer_config.json");
  EXPECT_EQ(tokenizer_files(path).size(), 3u);
  const std::vector<TokenizerFile> files = tokenizer_files(path / "small.model");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].usual_name, "tokenizer.model");
  EXPECT_EQ(files[0].path, path / "small.model");
  EXPECT_EQ(files[1].path, path / "tokenizer_config.json");
  for (const char* name : {"vocab.txt", "tokenizer.json"}) EXPECT_EQ(last(path / name), name);
  fs::remove(path / "tokenizer_config.json");
  EXPECT_EQ(last(path), "merges.txt");
  EXPECT_EQ(last(path / "small.model"), "tokenizer.model");
}

// The pattern that splits a text is in neither of the two files: Qwen2's are of the same form.
TEST(OpenTokenizer, TakesVocabAndMergesForGpt2sAlone) {
  const TemporaryFolder folder;
  const fs::path& path = folder.path();
  save_bpe_vocabulary(train_bpe("some text, some words", {.vocab_size = 260}), path);
  for (const char* good : {R"({"tokenizer_class": "GPT2Tokenizer"})", "{}", R"({"tokenizer_class": null})",
                           R"({"tokenizer_class": "GPT2TokenizerFast"})"}) {
    std::ofstream(path / "tokenizer_config.json") << good;
    EXPECT_TRUE(is_a<BpeTokenizer>(open_tokenizer(path))) << good;
  }
  std::ofstream(path / "tokenizer_config.json") << R"({"tokenizer_class": "Qwen2Tokenizer"})";
  expect_refused(path, {"tokenizer_config.json", "found the tokenizer_class Qwen2Tokenizer",
                        "expected GPT2Tokenizer or GPT2TokenizerFast"});
  for (const char* bad : {"[]", "{", R"({"tokenizer_class": 7})"}) {
    std::ofstream(path / "tokenizer_config.json") << bad;
    expect_refused(path, {(path / "tokenizer_config.json").string() + ": "});
  }
}

TEST(OpenTokenizer, RefusesByNameWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  expect_refused(folder.path(), {folder.path().string(), "holds no tokenizer", "tokenizer.json"});
  expect_refused(folder.path() / "gone", {"gone", "no such file"});
  for (const char* name : {"words.dat", "vocab.json", "merges.txt", "tokenizer.json"})
    std::ofstream(folder.path() / name) << "x";
  expect_refused(folder.path() / "words.dat", {"words.dat", "not a tokenizer by its name"});
  expect_refused(folder.path() / "vocab.json", {"name the folder"});
  expect_refused(folder.path() / "merges.txt", {"name the folder"});
  expect_refused(folder.path() / "tokenizer.json", {"tokenizer.json", "not a JSON file"});
}

TEST(CheckVocabularyFits, NamesBothSizes) {
  const WordpieceTokenizer tokenizer({"[UNK]", "a", "b"});
  check_vocabulary_fits(tokenizer, "vocab.txt", 3);
  check_vocabulary_fits(tokenizer, "vocab.txt", 128);
  try {
    check_vocabulary_fits(tokenizer, "vocab.txt", 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "vocab.txt: found a tokenizer of 3 ids, expected at most 2, the model's vocabulary");
  }
}

}  // namespace
}  // namespace tessera
