#include "tessera/text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tessera/base/error.h"
#include "tessera/text/bpe_tokenizer.h"
#include "text/naive_bpe.h"
#include "text/random_text.h"
#include "text/temporary_folder.h"

namespace tessera {
namespace {

std::vector<std::array<std::int32_t, 3>> as_arrays(const std::vector<BpeMerge>& merges) {
  std::vector<std::array<std::int32_t, 3>> arrays;
  for (const BpeMerge& merge : merges) arrays.push_back({merge.left, merge.right, merge.result});
  return arrays;
}

std::string error_of_training(std::string_view text, const BpeTrainOptions& options) {
  try {
    train_bpe(text, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(BpeTrainer, LearnsWhatTheNaiveTrainerLearns) {
  std::mt19937_64 random(40);
  for (int i = 0; i < 12; ++i) {
    const std::string text =
        i % 2 == 0 ? random_words(random, 400) : random_hard_text(random, 500) + random_words(random, 100);
    const BpeVocabulary expected = naive_train(text, 256 + 60);
    const BpeVocabulary found = train_bpe(text, {.vocab_size = 256 + 60, .special_tokens = {}});
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(as_arrays(found.merges), as_arrays(expected.merges));
    EXPECT_EQ(std::set(found.tokens.begin(), found.tokens.end()).size(), found.tokens.size());
  }
}

TEST(BpeTrainer, BreaksTiesByTheLowestIds) {
  // Three pairs, each twice; '!' < 'a' < 'b' < 'z' as ids.
  const BpeVocabulary found = train_bpe("zz\nzz\nab\nab\naa\naa", {.vocab_size = 259, .special_tokens = {}});
  ASSERT_EQ(found.tokens.size(), 259u);
  EXPECT_EQ(found.tokens[256], "aa");
  EXPECT_EQ(found.tokens[257], "ab");
  EXPECT_EQ(found.tokens[258], "zz");
}

TEST(BpeTrainer, CountsDocumentsTogether) {
  WordCounts counts;
  count_words("one two ", counts);
  count_words("two", counts);
  count_words(" two", counts);
  EXPECT_EQ(counts, (WordCounts{{"one", 1}, {" two", 2}, {" ", 1}, {"two", 1}}));
}

TEST(BpeTrainer, SavesAVocabularyThatLoadsAndEncodes) {
  std::mt19937_64 random(42);
  const std::string text = random_words(random, 500) + random_hard_text(random, 500);
  std::vector<int> calls;
  const BpeVocabulary vocabulary =
      train_bpe(text, {.vocab_size = 300,
                       .special_tokens = {"<|endoftext|>", "[PAD]"},
                       .progress = [&](int num_tokens, int) { calls.push_back(num_tokens); }});
  ASSERT_EQ(vocabulary.tokens.size(), 300u);
  EXPECT_EQ(calls.back(), 300);
  EXPECT_EQ(calls.size(), vocabulary.merges.size());

  const TemporaryFolder folder;
  save_bpe_vocabulary(vocabulary, folder.path());
  const BpeTokenizer tokenizer = BpeTokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.vocabulary().tokens, vocabulary.tokens);
  EXPECT_EQ(as_arrays(tokenizer.vocabulary().merges), as_arrays(vocabulary.merges));
  EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 298);
  EXPECT_EQ(tokenizer.id_of("[PAD]"), 299);
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  EXPECT_LT(ids.size(), text.size());
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(BpeTrainer, RefusesATextThatIsTooSmall) {
  for (const char* text : {"", "abc", "ab ab ab"}) {
    const std::string message = error_of_training(text, {.vocab_size = 300});
    EXPECT_NE(message.find("too small for vocab_size 300"), std::string::npos) << message;
  }
}

TEST(BpeTrainer, RefusesOptionsThatCannotBe) {
  const auto expect_refused = [](const BpeTrainOptions& options, const char* reason) {
    const std::string message = error_of_training("abc", options);
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  };
  expect_refused({.vocab_size = 256}, "expected at least 257");
  expect_refused({.vocab_size = 300, .min_frequency = 0}, "min_frequency is 0");
  expect_refused({.special_tokens = {"end"}}, "special token \"end\"");
  expect_refused({.special_tokens = {""}}, "special token \"\"");
  expect_refused({.special_tokens = {"<\u00e9>"}}, "printable ASCII");
  expect_refused({.special_tokens = {"<|>"}}, "letters or digits inside");
  expect_refused({.special_tokens = {"<s>", "<s>"}}, "given twice");
}

}  // namespace
}  // namespace tessera
