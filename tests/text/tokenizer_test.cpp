#include "tessera/text/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/error.h"
#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/bpe_trainer.h"
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

TEST(OpenTokenizer, RecognisesAFolder) {
  const TemporaryFolder folder;
  save_bpe_vocabulary(train_bpe("some text, some words", {.vocab_size = 260}), folder.path());
  std::ofstream(folder.path() / "vocab.txt") << "[UNK]\n";
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(folder.path());
  EXPECT_NE(dynamic_cast<BpeTokenizer*>(tokenizer.get()), nullptr);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("words")), "words");
  fs::remove(folder.path() / "merges.txt");
  EXPECT_NE(dynamic_cast<WordpieceTokenizer*>(open_tokenizer(folder.path()).get()), nullptr);
  fs::remove(folder.path() / "vocab.txt");
  expect_refused(folder.path(), {"merges.txt", "No such file"});
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
