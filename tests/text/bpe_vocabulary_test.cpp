#include "tessera/text/bpe_vocabulary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/text/byte_alphabet.h"
#include "text/temporary_folder.h"

namespace tessera {
namespace {

// 256 bytes, "Ġt", "he", "Ġthe", a special token; merges in that order.
nlohmann::json small_vocab_json() {
  nlohmann::json json;
  int id = 0;
  for (const unsigned char byte : bytes_in_alphabet_order()) {
    json[spell_bytes(std::string(1, static_cast<char>(byte)))] = id++;
  }
  for (const char* token : {"\u0120t", "he", "\u0120the", "<|endoftext|>"}) json[token] = id++;
  return json;
}

constexpr const char* kSmallMerges = "#version: 0.2\n\u0120 t\nh e\n\u0120t he\n";

class BpeVocabularyFiles : public testing::Test {
 protected:
  void write(const std::string& vocab_json, const std::string& merges_txt) {
    write_file(folder_.path() / "vocab.json", vocab_json);
    write_file(folder_.path() / "merges.txt", merges_txt);
  }

  std::string error_of_load() {
    try {
      load_bpe_vocabulary(folder_.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  void expect_refused(const std::string& vocab_json, const std::string& merges_txt, const std::string& file,
                      const std::string& reason) {
    write(vocab_json, merges_txt);
    const std::string message = error_of_load();
    EXPECT_NE(message.find(file), std::string::npos) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }

  TemporaryFolder folder_;
};

TEST_F(BpeVocabularyFiles, Loads) {
  write(small_vocab_json().dump(), kSmallMerges);
  const BpeVocabulary vocabulary = load_bpe_vocabulary(folder_.path());
  ASSERT_EQ(vocabulary.tokens.size(), 260u);
  EXPECT_EQ(vocabulary.tokens[0], "!");
  EXPECT_EQ(vocabulary.tokens[220], " ");
  EXPECT_EQ(vocabulary.tokens[258], " the");
  EXPECT_EQ(vocabulary.tokens[259], "<|endoftext|>");
  ASSERT_EQ(vocabulary.merges.size(), 3u);
  EXPECT_EQ(vocabulary.merges[2].left, 256);
  EXPECT_EQ(vocabulary.merges[2].right, 257);
  EXPECT_EQ(vocabulary.merges[2].result, 258);
}

TEST_F(BpeVocabularyFiles, SavesWhatItLoads) {
  auto json = small_vocab_json();
  json["<\u00e9\u4f60>"] = 260;  // a special token is spelled in UTF-8, not in the byte alphabet
  write(json.dump(), kSmallMerges);
  const BpeVocabulary vocabulary = load_bpe_vocabulary(folder_.path());
  EXPECT_EQ(vocabulary.tokens[260], "<\u00e9\u4f60>");

  const std::filesystem::path copy = folder_.path() / "a" / "b";
  save_bpe_vocabulary(vocabulary, copy);
  EXPECT_EQ(nlohmann::json::parse(read_file(copy / "vocab.json")), json);
  EXPECT_EQ(read_file(copy / "merges.txt"), kSmallMerges);
  EXPECT_EQ(load_bpe_vocabulary(copy).tokens, vocabulary.tokens);
}

TEST_F(BpeVocabularyFiles, TakesMergesWithoutHeaderAndOneThatBeginsWithAHash) {
  auto json = small_vocab_json();
  json["##"] = 260;
  write(json.dump(), "\u0120 t\nh e\n\u0120t he\n# #");
  EXPECT_EQ(load_bpe_vocabulary(folder_.path()).merges.size(), 4u);
}

TEST_F(BpeVocabularyFiles, RefusesMissingFiles) {
  EXPECT_NE(error_of_load().find("vocab.json"), std::string::npos);
  write(small_vocab_json().dump(), kSmallMerges);
  std::filesystem::remove(folder_.path() / "merges.txt");
  EXPECT_NE(error_of_load().find("merges.txt"), std::string::npos);
}

TEST_F(BpeVocabularyFiles, RefusesForeignVocabJson) {
  expect_refused("", kSmallMerges, "vocab.json", "empty");
  expect_refused(
      "\x7f"
      "ELF\x02\x01",
      kSmallMerges, "vocab.json", "not a JSON file");
  expect_refused(small_vocab_json().dump().substr(0, 700), kSmallMerges, "vocab.json", "not a JSON file");
  expect_refused("[1, 2]", kSmallMerges, "vocab.json", "found a JSON array");
  expect_refused("{}", kSmallMerges, "merges.txt", "not in vocab.json");
  expect_refused(R"({"a": "0"})", kSmallMerges, "vocab.json", "token \"a\" has \"0\"");
  expect_refused(R"({"a": 0.5})", kSmallMerges, "vocab.json", "token \"a\" has 0.5");
  expect_refused(R"({"a": 0, "a": 0})", kSmallMerges, "vocab.json", "more than once");
  expect_refused(R"({"": 0})", kSmallMerges, "vocab.json", "empty token");
}

TEST_F(BpeVocabularyFiles, RefusesIdsThatAreNotZeroToN) {
  auto duplicate = small_vocab_json();
  duplicate["he"] = 256;
  expect_refused(duplicate.dump(), kSmallMerges, "vocab.json", "id 256 is given to both");
  auto gap = small_vocab_json();
  gap["<|endoftext|>"] = 300;
  expect_refused(gap.dump(), kSmallMerges, "vocab.json", "\"<|endoftext|>\" has id 300");
  auto negative = small_vocab_json();
  negative["he"] = -1;
  expect_refused(negative.dump(), kSmallMerges, "vocab.json", "has id -1");
  auto huge = small_vocab_json();
  huge["he"] = 18446744073709551615u;
  expect_refused(huge.dump(), kSmallMerges, "vocab.json", "\"he\" has id");
}

TEST_F(BpeVocabularyFiles, RefusesForeignMerges) {
  const std::string vocab = small_vocab_json().dump();
  const std::string good = kSmallMerges;
  expect_refused(vocab, "", "merges.txt", "empty");
  expect_refused(vocab,
                 "\x7f"
                 "ELF",
                 "merges.txt line 1", "two tokens");
  expect_refused(vocab, good + "a b c\n", "merges.txt line 5", "two tokens");
  expect_refused(vocab, good + "\nh i\n", "merges.txt line 5", "two tokens");
  expect_refused(vocab, good + "zz a\n", "merges.txt line 5", "left part \"zz\" is not in vocab.json");
  expect_refused(vocab, good + "a zz\n", "merges.txt line 5", "right part \"zz\" is not in vocab.json");
  expect_refused(vocab, good + "a b\n", "merges.txt line 5", "result \"ab\" is not in vocab.json");
  expect_refused(vocab, good + "h e\n", "merges.txt line 5", "already on line 3");
}

TEST_F(BpeVocabularyFiles, RefusesMergesThatWereCutOff) {
  expect_refused(small_vocab_json().dump(), "#version: 0.2\n\u0120 t\nh e\n", "vocab.json",
                 "comes out of no merge");
}

TEST_F(BpeVocabularyFiles, RefusesAVocabularyThatIsNotByteLevel) {
  auto no_space = small_vocab_json();
  no_space.erase("\u0120");
  no_space["<filler>"] = 220;
  expect_refused(no_space.dump(), "#version: 0.2\nh e\n", "vocab.json", "comes out of no merge");
  no_space.erase("\u0120t");
  no_space.erase("\u0120the");
  no_space["<filler2>"] = 256;
  no_space["<filler3>"] = 258;
  expect_refused(no_space.dump(), "#version: 0.2\nh e\n", "vocab.json", "no token for byte 0x20");
  auto sentencepiece = small_vocab_json();
  sentencepiece["<a"] = 260;
  sentencepiece["\u2581"] = 261;
  sentencepiece["\u2581t"] = 262;
  expect_refused(sentencepiece.dump(), std::string(kSmallMerges) + "\u2581 t\n< a\n", "vocab.json",
                 "token \"\u2581\" (id 261) comes out of no merge");
}

}  // namespace
}  // namespace tessera
