#include "tessera/text/wordpiece_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tessera/base/error.h"
#include "tessera/text/bert_words.h"
#include "text/temporary_folder.h"

namespace tessera {
namespace {

// "a|b|c"
std::string words(std::string_view text, bool lower_case = true) {
  std::string out;
  BertWords(lower_case).for_each(text, [&](std::string_view all, std::size_t begin, std::size_t size) {
    out += (out.empty() ? "" : "|") + std::string(all.substr(begin, size));
  });
  return out;
}

TEST(BertWords, SplitsAtSpacesAndPunctuation) {
  EXPECT_EQ(words(" Hello,  World!\tA-b\n"), "hello|,|world|!|a|-|b");
  EXPECT_EQ(words("it's $5 a_b ^ `x~"), "it|'|s|$|5|a|_|b|^|`|x|~");
  EXPECT_EQ(words("\u00abx\u00bb \u2014 y\u3002"), "\u00ab|x|\u00bb|\u2014|y|\u3002");
  EXPECT_EQ(words("a\u00a0b\u3000c\u2028d"), "a|b|c|d");
  EXPECT_EQ(words(""), "");
}

TEST(BertWords, StripsAccentsAndCapitals) {
  EXPECT_EQ(words("H\u00c9llo \u00c5ngstr\u00f6m"), "hello|angstrom");
  EXPECT_EQ(words("e\u0301\u0327x"), "ex");
  EXPECT_EQ(words("\u0130stanbul"), "istanbul");
  EXPECT_EQ(words("\u041f\u0420\u0418\u0412\u0415\u0422 \u0439"),
            "\u043f\u0440\u0438\u0432\u0435\u0442|\u0438");
  EXPECT_EQ(words("\u03a3\u03a3"), "\u03c3\u03c3");  // letter by letter: no final sigma
  EXPECT_EQ(words("a\u037eb"), "a|;|b");             // decomposes to a semicolon
  EXPECT_EQ(words("H\u00c9llo", false), "H\u00c9llo");
}

TEST(BertWords, SpacesIdeographsAndOnlyThose) {
  EXPECT_EQ(words("ab\u4f60\u597dcd"), "ab|\u4f60|\u597d|cd");
  EXPECT_EQ(words("\uf900"), "\u8c48");              // a compatibility ideograph decomposes
  EXPECT_EQ(words("\u3042\u3044"), "\u3042\u3044");  // Hiragana is written together
  EXPECT_EQ(words("\ud55c"), "\u1112\u1161\u11ab");  // Hangul decomposes
}

TEST(BertWords, DropsControlCharacters) {
  EXPECT_EQ(words(std::string_view("a\0b\x01"
                                   "c\x7f",
                                   6)),
            "abc");
  EXPECT_EQ(words("a\u200bb\u00adc\ufeffd\ue000e\ufffdf"), "abcdef");
  EXPECT_EQ(words("a\x0b"
                  "b\x0c"
                  "c\u0085d"),
            "abcd");  // not whitespace to BERT, but control
}

TEST(BertWords, LongTextsAreTheSameInChunks) {
  std::string text, expected;
  for (int i = 0; i < 30000; ++i) {
    text += "\u00c9t\u00e9 ";
    expected += i == 0 ? "ete" : "|ete";
  }
  EXPECT_TRUE(words(text) == expected);
}

WordpieceTokenizer small_wordpiece() {
  return WordpieceTokenizer({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "want",
                             "##want", "##ed", "wa", "run", "##ning", ",", "low", "lowest", "##est",
                             "\u4f60"});
}

using Ids = std::vector<std::int32_t>;

// "un ##aff ##able" and [UNK] for what does not work out are BERT's own examples.
TEST(WordpieceTokenizer, TakesTheLongestPieceFirst) {
  const WordpieceTokenizer tokenizer = small_wordpiece();
  EXPECT_EQ(tokenizer.encode("unaffable UNwanted,running"), (Ids{5, 6, 7, 5, 9, 10, 14, 12, 13}));
  EXPECT_EQ(tokenizer.encode("lowest low"), (Ids{16, 15}));
  EXPECT_EQ(tokenizer.encode("unwantedX running"), (Ids{1, 12, 13}));
  EXPECT_EQ(tokenizer.encode("\u4f60\u4f60"), (Ids{18, 18}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("unaffable running")), "unaffable running");
}

TEST(WordpieceTokenizer, KnowsItsSpecialTokensInText) {
  const WordpieceTokenizer tokenizer = small_wordpiece();
  EXPECT_EQ(tokenizer.encode("low[MASK]low [SEP]"), (Ids{15, 4, 15, 3}));
  EXPECT_EQ(tokenizer.encode("[mask]"), (Ids{1, 1, 1}));
  EXPECT_EQ(tokenizer.end_of_document(), 3);
  EXPECT_EQ(tokenizer.id_of("nothing"), std::nullopt);
}

TEST(WordpieceTokenizer, GivesUpOnWordsOfMoreThanAHundredCharacters) {
  std::vector<std::string> tokens = {"[UNK]", "\u00f8", "##\u00f8"};
  const WordpieceTokenizer tokenizer(tokens);
  std::string word;
  for (int i = 0; i < 100; ++i) word += "\u00f8";
  EXPECT_EQ(tokenizer.encode(word).size(), 100u);
  EXPECT_EQ(tokenizer.encode(word + "\u00f8"), Ids{0});
}

TEST(WordpieceTokenizer, ACasedVocabularyKeepsCapitals) {
  const WordpieceTokenizer tokenizer({"[UNK]", "Paris", "paris", "\u00c9t\u00e9"});
  EXPECT_FALSE(tokenizer.lower_case());
  EXPECT_EQ(tokenizer.encode("Paris paris PARIS \u00c9t\u00e9"), (Ids{1, 2, 0, 3}));
}

// What the `tokenizers` library gives for this file: {"a": 4, "##a": 3, "b": 5, "\u200bc": 6, "[UNK]": 7}.
TEST(WordpieceTokenizer, ReadsAFileAsTheLibraryDoes) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "vocab.txt")
      << "[UNK]\na\n##a\n##a\u3000\na\u00a0 \u2028\t\r\nb\u0085\n\u200bc\n[UNK]\u2003\n";
  const WordpieceTokenizer tokenizer = WordpieceTokenizer::load(folder.path() / "vocab.txt");
  EXPECT_EQ(tokenizer.encode("aa b a x"), (Ids{4, 3, 5, 4, 7}));
  EXPECT_EQ(tokenizer.encode("[UNK]"), Ids{7});
  EXPECT_EQ(tokenizer.id_of("\u200bc"), 6);
  EXPECT_EQ(tokenizer.vocab_size(), 8);
}

TEST(WordpieceTokenizer, RefusesAFileWithoutUnk) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "vocab.txt") << "the\nof\n";
  try {
    WordpieceTokenizer::load(folder.path() / "vocab.txt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), (folder.path() / "vocab.txt").string() +
                                ": not a WordPiece vocab.txt: the vocabulary of 2 tokens has no [UNK]");
  }
  std::ofstream(folder.path() / "vocab.txt") << "[UNK]\r\nthe \r\nof";
  EXPECT_EQ(WordpieceTokenizer::load(folder.path() / "vocab.txt").encode("of the"), (Ids{2, 1}));
}

}  // namespace
}  // namespace tessera
