// The ids of a text of many scripts, character by character what the tokenizers' own libraries give for it.
// The vocabularies and the ids are too large to keep here: they lie beside the project, in ../shared.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/base/mapped_file.h"
#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/tokenizer.h"
#include "tessera/text/wordpiece_tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kShared = TESSERA_SOURCE_DIR "/../shared";
const fs::path kGolden = kShared / "golden/tokenizers";
const fs::path kVocabularies = kShared / "data/tokenizers";

// Without the folder there is nothing to compare with, and that is said. With it, each file must be there.
bool nothing_to_compare_with() {
  if (fs::exists(kShared)) return false;
  std::printf("NOT COMPARED with the libraries' ids: %s does not exist\n", kShared.c_str());
  return true;
}

// One I32 tensor of a safetensors file: u64 length of a JSON header, the header, the data.
std::vector<std::int32_t> expected_ids(const std::string& key) {
  const std::string file = read_file(kGolden / "ids.safetensors");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const auto entry = nlohmann::json::parse(file.substr(8, header_bytes)).at(key);
  const std::size_t begin = entry.at("data_offsets")[0];
  const std::size_t end = entry.at("data_offsets")[1];
  std::vector<std::int32_t> ids((end - begin) / sizeof(std::int32_t));
  std::memcpy(ids.data(), file.data() + 8 + header_bytes + begin, end - begin);
  return ids;
}

std::string sample() {
  return read_file(kGolden / "sample.txt");
}

void expect_golden_ids(const Tokenizer& tokenizer, const std::string& key) {
  const std::string text = sample();
  const std::vector<std::int32_t> expected = expected_ids(key);
  ASSERT_FALSE(expected.empty());
  const std::unique_ptr<TextEncoder> encoder = tokenizer.make_encoder();
  for (const char* pass : {"fresh", "with a full memory"}) {
    std::vector<std::int32_t> ids;
    encoder->encode(text, ids);
    const auto [found, wanted] = std::mismatch(ids.begin(), ids.end(), expected.begin(), expected.end());
    EXPECT_TRUE(ids == expected) << key << ", " << pass << ": " << ids.size() << " ids, expected "
                                 << expected.size() << ", first difference at " << found - ids.begin();
  }
  EXPECT_TRUE(tokenizer.encode(text) == expected) << key;
}

TEST(GoldenIds, Gpt2) {
  if (nothing_to_compare_with()) return;
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(kVocabularies / "gpt2");
  ASSERT_NE(dynamic_cast<BpeTokenizer*>(tokenizer.get()), nullptr);
  expect_golden_ids(*tokenizer, "gpt2");
  EXPECT_EQ(tokenizer->decode(expected_ids("gpt2")), sample());
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->end_of_document(), 50256);
  EXPECT_EQ(tokenizer->begin_of_text(), std::nullopt);
  EXPECT_EQ(tokenizer->id_of(" the"), 262);
}

TEST(GoldenIds, GptNeox) {
  if (nothing_to_compare_with()) return;
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(kVocabularies / "gpt-neox/tokenizer.json");
  expect_golden_ids(*tokenizer, "gpt-neox");
  EXPECT_EQ(tokenizer->end_of_document(), 0);
  EXPECT_EQ(tokenizer->begin_of_text(), std::nullopt);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("def f(x):\n        return x")),
            "def f(x):\n        return x");
}

TEST(GoldenIds, BertUncased) {
  if (nothing_to_compare_with()) return;
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(kVocabularies / "bert/vocab.txt");
  const auto* wordpiece = dynamic_cast<WordpieceTokenizer*>(tokenizer.get());
  ASSERT_NE(wordpiece, nullptr);
  EXPECT_TRUE(wordpiece->lower_case());
  EXPECT_EQ(tokenizer->vocab_size(), 30522);
  EXPECT_EQ(tokenizer->id_of("[MASK]"), 103);
  EXPECT_EQ(tokenizer->begin_of_text(), std::nullopt);
  expect_golden_ids(*tokenizer, "bert-uncased");
}

TEST(GoldenIds, LlamaLike) {
  if (nothing_to_compare_with()) return;
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(kGolden / "llama-like.model");
  expect_golden_ids(*tokenizer, "llama-like");
  EXPECT_EQ(tokenizer->begin_of_text(), 1);
  EXPECT_EQ(tokenizer->end_of_document(), 2);
}

}  // namespace
}  // namespace tessera
