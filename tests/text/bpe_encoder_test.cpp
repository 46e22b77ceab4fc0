#include "tessera/text/bpe_encoder.h"

#include <gtest/gtest.h>

#include <string>

#include "tessera/text/bpe_trainer.h"
#include "text/random_text.h"

namespace tessera {
namespace {

// More different words than the encoder can remember, so that entries are dropped and come back; lengths on
// both sides of what it remembers, and at the end of the text, where it must not read on.
TEST(BpeEncoder, GivesTheTokenizersIdsWhateverItEncodedBefore) {
  std::mt19937_64 random(60);
  const BpeTokenizer tokenizer(
      train_bpe(random_words(random, 3000) + random_hard_text(random, 3000), {.vocab_size = 600}));
  BpeEncoder encoder(tokenizer);
  std::size_t num_words = 0;
  for (int i = 0; i < 400; ++i) {
    std::string text;
    for (int w = 0; w < 400; ++w, ++num_words) {
      const std::size_t length = 1 + random() % 40;
      for (std::size_t c = 0; c < length; ++c) text += static_cast<char>('a' + random() % 26);
      text += ' ';
    }
    text += random_hard_text(random, 100) + random_words(random, 50) + random_bytes(random, random() % 70);
    std::vector<std::int32_t> ids;
    encoder.encode(text, ids);
    ASSERT_EQ(ids, tokenizer.encode(text));
  }
  EXPECT_GT(num_words, 100'000u);
}

TEST(BpeEncoder, TellsWordsApartThatDifferInTrailingZeros) {
  const BpeTokenizer tokenizer(train_bpe("", {.vocab_size = 257}));
  BpeEncoder encoder(tokenizer);
  for (std::size_t length = 1; length < 40; ++length) {
    std::string text = "!";
    text.append(length, '\0');
    std::vector<std::int32_t> ids;
    encoder.encode(text, ids);
    EXPECT_EQ(ids, tokenizer.encode(text));
  }
}

}  // namespace
}  // namespace tessera
