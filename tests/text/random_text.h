// Random texts that are hard to tokenize: every kind of space, several scripts, contractions, numbers that
// are not digits, emoji in several parts, and, on request, bytes that are not UTF-8.
#pragma once

#include <cstddef>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr std::string_view kHardParts[] = {" ",
                                                  "  ",
                                                  "   ",
                                                  "\n",
                                                  "\t",
                                                  "\r\n",
                                                  "\v",
                                                  "\f",
                                                  "\u0085",
                                                  "\u00a0",
                                                  "\u1680",
                                                  "\u2003",
                                                  "\u2028",
                                                  "\u202f",
                                                  "\u205f",
                                                  "\u3000",
                                                  "\u200b",
                                                  "\ufeff",
                                                  "\x1c",
                                                  "'s",
                                                  "'t",
                                                  "'re",
                                                  "'ve",
                                                  "'m",
                                                  "'ll",
                                                  "'d",
                                                  "'S",
                                                  "'LL",
                                                  "'l",
                                                  "'",
                                                  "''",
                                                  "\u2019s",
                                                  "a",
                                                  "B",
                                                  "the",
                                                  "Hello",
                                                  "\u00e9",
                                                  "e\u0301",
                                                  "\u00df",
                                                  "\u01c5",
                                                  "\u4f60",
                                                  "\u597d",
                                                  "\u3053",
                                                  "\ud55c",
                                                  "\u0444",
                                                  "\u05e2",
                                                  "\u0639",
                                                  "\u0e01",
                                                  "0",
                                                  "42",
                                                  "\u00b2",
                                                  "\u00bd",
                                                  "\u2167",
                                                  "\u0663",
                                                  "\u2460",
                                                  "\U0001d7d8",
                                                  "!",
                                                  "...",
                                                  "\u2014",
                                                  "_",
                                                  "$",
                                                  "<|endoftext|>",
                                                  "\u20ac",
                                                  "\ufffd",
                                                  "\U0001f600",
                                                  "\U0001f468\u200d\U0001f469",
                                                  "\U0001f1fa\U0001f1f8",
                                                  "\U00020000",
                                                  std::string_view("\0", 1)};

inline std::string random_hard_text(std::mt19937_64& random, std::size_t num_parts) {
  std::uniform_int_distribution<std::size_t> pick(0, std::size(kHardParts) - 1);
  std::string text;
  for (std::size_t i = 0; i < num_parts; ++i) text += kHardParts[pick(random)];
  return text;
}

inline std::string random_bytes(std::mt19937_64& random, std::size_t num_bytes) {
  std::string bytes(num_bytes, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() & 0xff);
  return bytes;
}

// Words over few letters, so that pairs overlap and repeat.
inline std::string random_words(std::mt19937_64& random, std::size_t num_words) {
  constexpr std::string_view kLetters = "aaabbcd";
  std::string text;
  for (std::size_t w = 0; w < num_words; ++w) {
    const std::size_t length = 1 + random() % 9;
    for (std::size_t i = 0; i < length; ++i) text += kLetters[random() % kLetters.size()];
    text += random() % 8 == 0 ? "\n" : " ";
  }
  return text;
}

}  // namespace tessera
