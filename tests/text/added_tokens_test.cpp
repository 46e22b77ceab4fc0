#include "tessera/text/added_tokens.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tessera {
namespace {

// "[id]" for each token found, and the text between them.
std::string marked(const AddedTokens& tokens, std::string_view text) {
  std::string out;
  tokens.split(
      text, [&](std::string_view part) { out += part; },
      [&](std::int32_t id) { out += "[" + std::to_string(id) + "]"; });
  return out;
}

std::string naive_marked(const std::vector<std::string>& tokens, std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t longest = 0, id = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].size() > longest && text.substr(at).starts_with(tokens[i])) {
        longest = tokens[i].size();
        id = i;
      }
    }
    if (longest > 0) {
      out += "[" + std::to_string(id) + "]";
      at += longest;
    } else {
      out += text[at++];
    }
  }
  return out;
}

TEST(AddedTokens, TakesTheLongestOfTheLeftmost) {
  AddedTokens tokens;
  for (std::int32_t size = 2; size <= 24; ++size)
    tokens.add(std::string(static_cast<std::size_t>(size), ' '), size);
  EXPECT_EQ(marked(tokens, "a b  c   d"), "a b[2]c[3]d");
  EXPECT_EQ(marked(tokens, std::string(25, ' ') + "x"), "[24] x");
  EXPECT_EQ(marked(tokens, std::string(50, ' ')), "[24][24][2]");
  EXPECT_EQ(marked(tokens, ""), "");
}

TEST(AddedTokens, FindsNothingWithoutTokens) {
  AddedTokens tokens;
  tokens.add("", 7);
  EXPECT_EQ(marked(tokens, "some text"), "some text");
}

TEST(AddedTokens, AgreesWithTheNaiveSearch) {
  std::mt19937_64 random(1);
  const auto word = [&](std::size_t max_size) {
    std::string text(random() % max_size + 1, ' ');
    for (char& c : text) c = "ab\xc3\xff"[random() % 4];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    AddedTokens tokens;
    std::vector<std::string> contents;
    for (std::size_t i = 0; i < random() % 6; ++i) {
      const std::string content = word(5);
      if (std::find(contents.begin(), contents.end(), content) != contents.end()) continue;
      tokens.add(content, static_cast<std::int32_t>(contents.size()));
      contents.push_back(content);
    }
    const std::string text = word(60);
    ASSERT_EQ(marked(tokens, text), naive_marked(contents, text)) << testing::PrintToString(contents);
  }
}

}  // namespace
}  // namespace tessera
