#include "tessera/data/text_cut.h"

#include <gtest/gtest.h>

#include "data/pretokenizer.h"

namespace tessera {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces split_in_parts(const Pretokenizer& pretokenizer, std::string_view text, std::size_t part_bytes) {
  Pieces pieces;
  while (!text.empty()) {
    const std::size_t cut = find_text_cut(text, part_bytes);
    for (const std::string_view piece : pretokenizer.split(text.substr(0, cut))) pieces.push_back(piece);
    text.remove_prefix(cut);
  }
  return pieces;
}

TEST(TextCut, PretokenizerIsGpt2s) {  // the reference itself, on cases known from GPT-2
  const Pretokenizer gpt2(kGpt2Pattern);
  EXPECT_EQ(gpt2.split("Hello  world's 42nd\n\n day"),
            (Pieces{"Hello", " ", " world", "'s", " 42", "nd", "\n\n", " day"}));
  EXPECT_EQ(gpt2.split("end.\n x   "), (Pieces{"end", ".", "\n", " x", "   "}));
  EXPECT_EQ(Pretokenizer(kLlama3Pattern).split("end.\n\nx"), (Pieces{"end", ".\n\n", "x"}));
}

TEST(TextCut, PartsSplitLikeTheWhole) {
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern}) {
    const Pretokenizer pretokenizer(pattern);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const std::string text = awkward_text(seed, 400);
      const Pieces whole = pretokenizer.split(text);
      for (const std::size_t part_bytes : {1, 2, 3, 7, 20, 64, 300, 100000}) {
        ASSERT_EQ(split_in_parts(pretokenizer, text, part_bytes), whole)
            << "seed " << seed << ", " << part_bytes;
      }
    }
  }
}

// What the rule forbids does change the pieces, so the test above can fail.
TEST(TextCut, OtherCutsAreNotSafe) {
  const auto both = [](const Pretokenizer& pretokenizer, std::string_view left, std::string_view right) {
    Pieces pieces = pretokenizer.split(left);
    for (const std::string_view piece : pretokenizer.split(right)) pieces.push_back(piece);
    return pieces;
  };
  const Pretokenizer gpt2(kGpt2Pattern);
  EXPECT_NE(both(gpt2, "a ", "b"), gpt2.split("a b"));        // behind the space
  EXPECT_NE(both(gpt2, "a ", " \nb"), gpt2.split("a  \nb"));  // inside a run of whitespace
  const Pretokenizer llama3(kLlama3Pattern);
  EXPECT_NE(both(llama3, "end.", "\nx"), llama3.split("end.\nx"));  // before a newline
}

TEST(TextCut, TakesTheFirstCutAtOrAfterThePlace) {
  EXPECT_EQ(find_text_cut("one two three", 0), 3u);
  EXPECT_EQ(find_text_cut("one two three", 3), 3u);
  EXPECT_EQ(find_text_cut("one two three", 4), 7u);
  EXPECT_EQ(find_text_cut("one two three", 8), 13u);
  EXPECT_EQ(find_text_cut("one two three", 99), 13u);
  EXPECT_EQ(find_text_cut(" one", 0), 4u);                // never an empty part
  EXPECT_EQ(find_text_cut("one  two", 1), 8u);            // a run of spaces
  EXPECT_EQ(find_text_cut("one\n two\u00a0 x", 1), 12u);  // whitespace before the space
  EXPECT_EQ(find_text_cut("one 2 three", 1), 5u);         // no letter after the first
  EXPECT_EQ(find_text_cut("one ", 1), 4u);
  EXPECT_EQ(find_text_cut("", 1), 0u);
  EXPECT_EQ(find_text_cut("\u0416\u0416 \u0416", 1), 4u);
}

}  // namespace
}  // namespace tessera
