// The vocabularies of GPT-2, GPT-NeoX and BERT, too large to lie in the project (tests/golden/README.md).
// Where they are not found, CMake says so and has no such test.
#include "text/golden_ids.h"

#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/wordpiece_tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = TESSERA_SHARED_DIR "/golden/tokenizers";
const fs::path kVocabularies = TESSERA_SHARED_DIR "/data/tokenizers";

TEST(LargeVocabularies, Gpt2) {
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(kVocabularies / "gpt2");
  ASSERT_NE(dynamic_cast<BpeTokenizer*>(tokenizer.get()), nullptr);
  expect_golden_ids(*tokenizer, kGolden, "gpt2");
  EXPECT_EQ(tokenizer->decode(golden_ids(kGolden, "gpt2")), read_file(kGolden / "sample.txt"));
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->end_of_document(), 50256);
  EXPECT_EQ(tokenizer->begin_of_text(), std::nullopt);
  EXPECT_EQ(tokenizer->id_of(" the"), 262);
}

TEST(LargeVocabularies, GptNeox) {
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(kVocabularies / "gpt-neox/tokenizer.json");
  expect_golden_ids(*tokenizer, kGolden, "gpt-neox");
  EXPECT_EQ(tokenizer->end_of_document(), 0);
  EXPECT_EQ(tokenizer->begin_of_text(), std::nullopt);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("def f(x):\n        return x")),
            "def f(x):\n        return x");
}

TEST(LargeVocabularies, BertUncased) {
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(kVocabularies / "bert/vocab.txt");
  const auto* wordpiece = dynamic_cast<WordpieceTokenizer*>(tokenizer.get());
  ASSERT_NE(wordpiece, nullptr);
  EXPECT_TRUE(wordpiece->lower_case());
  EXPECT_EQ(tokenizer->vocab_size(), 30522);
  EXPECT_EQ(tokenizer->id_of("[MASK]"), 103);
  EXPECT_EQ(tokenizer->begin_of_text(), std::nullopt);
  expect_golden_ids(*tokenizer, kGolden, "bert-uncased");
}

// Of the whole sample, of which tests/golden/tokenizers has the part that may lie there.
TEST(LargeVocabularies, LlamaLike) {
  expect_golden_ids(*open_tokenizer(kGolden / "llama-like.model"), kGolden, "llama-like");
}

}  // namespace
}  // namespace tessera
