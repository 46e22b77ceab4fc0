#include "tessera/text/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/text/bpe_encoder.h"
#include "tessera/text/bpe_trainer.h"
#include "text/naive_bpe.h"
#include "text/random_text.h"

namespace tessera {
namespace {

BpeTokenizer small_tokenizer() {
  std::mt19937_64 random(50);
  return BpeTokenizer(
      train_bpe(random_words(random, 2000) + random_hard_text(random, 4000), {.vocab_size = 500}));
}

std::vector<std::int32_t> encode_with_cache(const BpeTokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  BpeEncoder(tokenizer).encode(text, ids);
  return ids;
}

TEST(BpeTokenizer, EncodesLikeTheNaiveLoop) {
  const BpeTokenizer tokenizer = small_tokenizer();
  std::mt19937_64 random(51);
  for (int i = 0; i < 60; ++i) {
    const std::string text =
        random_hard_text(random, 20) + random_words(random, 20) + random_bytes(random, 20);
    const std::vector<std::int32_t> expected = naive_encode(tokenizer.vocabulary(), text);
    ASSERT_EQ(tokenizer.encode(text), expected);
    ASSERT_EQ(encode_with_cache(tokenizer, text), expected);
  }
}

TEST(BpeTokenizer, DecodesWhatItEncodes) {
  const BpeTokenizer tokenizer = small_tokenizer();
  std::mt19937_64 random(52);
  const auto expect_round_trip = [&](const std::string& text) {
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << testing::PrintToString(text);
    ASSERT_EQ(tokenizer.decode(encode_with_cache(tokenizer, text)), text) << testing::PrintToString(text);
  };
  expect_round_trip("");
  for (int byte = 0; byte < 256; ++byte) expect_round_trip(std::string(1, static_cast<char>(byte)));
  for (const std::string_view part : kHardParts) expect_round_trip(std::string(part));
  for (int i = 0; i < 40; ++i) {
    expect_round_trip(random_bytes(random, random() % 2000));
    expect_round_trip(random_hard_text(random, random() % 500));
  }
  expect_round_trip(std::string(100'000, ' ') + std::string(100'000, 'a') + std::string(100'000, '\xff'));
}

TEST(BpeTokenizer, AppendsToWhatIsThere) {
  const BpeTokenizer tokenizer = small_tokenizer();
  std::vector<std::int32_t> ids = {7};
  tokenizer.encode("ab", ids);
  tokenizer.encode("", ids);
  tokenizer.encode("ab", ids);
  EXPECT_EQ(ids[0], 7);
  EXPECT_EQ(tokenizer.decode(std::span(ids).subspan(1)), "abab");
}

TEST(BpeTokenizer, TakesASpecialTokensTextAsOrdinaryText) {
  const BpeTokenizer tokenizer = small_tokenizer();
  const std::optional<std::int32_t> end = tokenizer.id_of("<|endoftext|>");
  ASSERT_EQ(end, 499);
  for (const std::int32_t id : tokenizer.encode("a<|endoftext|>")) EXPECT_NE(id, end);
  EXPECT_EQ(tokenizer.decode(std::vector{*end}), "<|endoftext|>");
  EXPECT_EQ(tokenizer.id_of("no such token"), std::nullopt);
}

TEST(BpeTokenizer, RefusesToDecodeAnIdBeyondTheVocabulary) {
  const BpeTokenizer tokenizer = small_tokenizer();
  for (const std::int32_t id : {-1, 500, INT32_MAX}) {
    try {
      tokenizer.decode(std::vector<std::int32_t>{0, id});
      FAIL() << "id " << id << " was decoded";
    } catch (const Error& error) {
      const std::string expected =
          fmt::format("cannot decode id {} at position 1: the vocabulary has 500 tokens", id);
      EXPECT_EQ(error.what(), expected);
    }
  }
}

TEST(BpeTokenizer, RefusesAVocabularyWithoutAllBytes) {
  EXPECT_THROW(BpeTokenizer(BpeVocabulary{.tokens = {"a"}, .merges = {}}), Error);
}

TEST(BpeTokenizer, IsSharedByThreads) {
  const BpeTokenizer tokenizer = small_tokenizer();
  std::mt19937_64 random(53);
  const std::string text = random_hard_text(random, 20'000);
  const std::vector<std::int32_t> expected = tokenizer.encode(text);
  std::vector<std::vector<std::int32_t>> found(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      if (i % 2 == 0) {
        found[i] = tokenizer.encode(text);
      } else {
        found[i] = encode_with_cache(tokenizer, text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : found) EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace tessera
