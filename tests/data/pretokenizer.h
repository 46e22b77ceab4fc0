// Pretokenizer: splits a text with a published pattern, run as it stands by PCRE2.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/philox.h"

namespace tessera {

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

class Pretokenizer {
 public:
  explicit Pretokenizer(std::string_view pattern) {
    int code = 0;
    PCRE2_SIZE offset = 0;
    pattern_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr));
    TS_ASSERT(pattern_ != nullptr);
    match_.reset(pcre2_match_data_create_from_pattern(pattern_.get(), nullptr));
  }

  std::vector<std::string_view> split(std::string_view text) const {
    std::vector<std::string_view> pieces;
    std::size_t at = 0;
    while (at < text.size()) {
      const int found = pcre2_match(pattern_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                    at, PCRE2_ANCHORED, match_.get(), nullptr);
      TS_ASSERT(found > 0);
      const std::size_t end = pcre2_get_ovector_pointer(match_.get())[1];
      pieces.push_back(text.substr(at, end - at));
      at = end;
    }
    return pieces;
  }

  // One id in [1, 50000) per piece, by its bytes: other boundaries give other ids.
  void encode(std::string_view text, std::vector<std::int32_t>& append_to) const {
    for (const std::string_view piece : split(text)) {
      append_to.push_back(static_cast<std::int32_t>(1 + name_hash(piece) % 49999));
    }
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> pattern_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

// Text of words, numbers, punctuation, contractions and all kinds of whitespace, in all orders.
inline std::string awkward_text(std::uint64_t seed, int num_parts) {
  constexpr std::string_view kParts[] = {
      "a",      "word",   "I",      "'s",         "'ll",    "'",      "don't",  "42",     "7",
      ".",      "...",    "!\"",    "(",          ")",      "#$%",    " ",      " ",      " ",
      " ",      "  ",     "   ",    "\n",         "\n\n",   "\r\n",   "\t",     " \n",    "\n ",
      "\u00a0", "\u2003", "\u3000", "\u180e",     "\u0085", "\u2028", "\u00e9", "\u0416", "\u4e2d",
      "\u0663", "\u2019", "\u0301", "\U0001f600", "\u200b"};
  std::string text;
  for (int i = 0; i < num_parts; ++i) {
    text += kParts[philox(seed, static_cast<std::uint64_t>(i))[0] % std::size(kParts)];
  }
  return text;
}

}  // namespace tessera
