#include "tessera/text/pretokenize.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/pcre2_regex.h"
#include "text/random_text.h"

namespace tessera {
namespace {

using Pieces = std::vector<std::string_view>;

constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Pieces split(std::string_view text) {
  Pieces pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = piece_end(text, at);
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

TEST(Pretokenize, SplitsLikeGpt2) {
  EXPECT_EQ(split(""), Pieces{});
  EXPECT_EQ(split("Hello  world!"), (Pieces{"Hello", " ", " world", "!"}));
  EXPECT_EQ(split("I'm he'll don't 'tis"), (Pieces{"I", "'m", " he", "'ll", " don", "'t", " '", "tis"}));
  EXPECT_EQ(split("IT'S ''s"), (Pieces{"IT", "'", "S", " ''", "s"}));
  EXPECT_EQ(split("a1b22 3.14"), (Pieces{"a", "1", "b", "22", " 3", ".", "14"}));
  EXPECT_EQ(split("x \n\n  y"), (Pieces{"x", " \n\n ", " y"}));
  EXPECT_EQ(split("x\n\ny\n"), (Pieces{"x", "\n", "\n", "y", "\n"}));
  EXPECT_EQ(split("end   "), (Pieces{"end", "   "}));
  EXPECT_EQ(split("\u00a0word"), (Pieces{"\u00a0", "word"}));
  EXPECT_EQ(split("\u4f60\u597d 1\u00bd"), (Pieces{"\u4f60\u597d", " 1\u00bd"}));
  EXPECT_EQ(split("\xff\xfe ok \x80"), (Pieces{"\xff\xfe", " ok", " \x80"}));
}

TEST(Pretokenize, AgreesWithPcre2OnHardTexts) {
  const Pcre2Regex pattern(kGpt2Pattern);
  std::mt19937_64 random(20);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_hard_text(random, 1 + random() % 60);
    ASSERT_EQ(split(text), pattern.find_all(text)) << testing::PrintToString(text);
  }
}

TEST(Pretokenize, AgreesWithPcre2OnRandomAscii) {
  const Pcre2Regex pattern(kGpt2Pattern);
  std::mt19937_64 random(21);
  for (int i = 0; i < 3000; ++i) {
    std::string text = random_bytes(random, 1 + random() % 60);
    for (char& c : text) c &= 0x7f;
    ASSERT_EQ(split(text), pattern.find_all(text)) << testing::PrintToString(text);
  }
}

TEST(Pretokenize, LosesNoByteOfWhatIsNotUtf8) {
  std::mt19937_64 random(22);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_bytes(random, 1 + random() % 100);
    std::string joined;
    for (const std::string_view piece : split(text)) joined += piece;
    ASSERT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace tessera
