#include "tessera/text/char_class.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/pcre2_regex.h"

namespace tessera {
namespace {

constexpr char32_t kLastCodePoint = 0x10ffff;
constexpr int kUnicodeVersion = 16;

bool is_surrogate(char32_t c) {
  return c >= 0xd800 && c <= 0xdfff;
}

void append_utf8(char32_t c, std::string& text) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
  if (c < 0x10000) return put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
}

// Which code points PCRE2 gives a property, from one pass over all of them.
std::vector<bool> having(const char* property) {
  std::string all;
  std::vector<char32_t> code_point_at;
  for (char32_t c = 0; c <= kLastCodePoint; ++c) {
    if (is_surrogate(c)) continue;
    append_utf8(c, all);
    code_point_at.resize(all.size(), c);
  }
  std::vector<bool> has(kLastCodePoint + 1);
  const Pcre2Regex regex(property);
  for (const std::string_view match : regex.find_all(all)) {
    const auto first = static_cast<std::size_t>(match.data() - all.data());
    for (std::size_t i = first; i < first + match.size(); ++i) has[code_point_at[i]] = true;
  }
  return has;
}

TEST(CharClass, AgreesWithPcre2OnEveryCodePoint) {
  const std::vector<bool> letters = having("\\p{L}+");
  const std::vector<bool> numbers = having("\\p{N}+");
  const std::vector<bool> spaces = having("\\s+");
  const std::vector<bool> unassigned = having("\\p{Cn}+");
  const bool pcre2_is_newer = std::stoi(pcre2_unicode_version()) > kUnicodeVersion;
  int num_compared = 0;
  for (char32_t c = 0; c <= kLastCodePoint; ++c) {
    if (is_surrogate(c)) continue;
    const CharClass ours = class_of(c);
    // Unicode never takes a letter back, but versions add some: an older PCRE2 has them unassigned.
    if (unassigned[c] || (pcre2_is_newer && ours == CharClass::other)) continue;
    // PCRE2 keeps the Mongolian vowel separator a space; Unicode took White_Space from it in version 6.3.
    const bool is_space = spaces[c] && c != 0x180e;
    const CharClass theirs = letters[c]   ? CharClass::letter
                             : numbers[c] ? CharClass::number
                             : is_space   ? CharClass::space
                                          : CharClass::other;
    ASSERT_EQ(ours, theirs) << std::hex << static_cast<std::uint32_t>(c);
    ++num_compared;
  }
  EXPECT_GT(num_compared, 140'000);
}

TEST(CharClass, ReadsEveryCodePointFromUtf8) {
  for (char32_t c = 0; c <= kLastCodePoint; ++c) {
    if (is_surrogate(c)) continue;
    std::string text;
    append_utf8(c, text);
    const ClassifiedChar found = classify_char(text, 0);
    ASSERT_EQ(found.num_bytes, text.size());
    ASSERT_EQ(found.char_class, class_of(c));
  }
}

TEST(CharClass, TakesIllFormedBytesOneByOneAsOther) {
  const std::string ill_formed[] = {
      "\x80",  // continuation without a lead
      "\xc3",  // cut off
      "\xc3"
      "a",                 // lead without continuation
      "\xc1\x81",          // 'A', overlong
      "\xe0\x81\x81",      // overlong
      "\xe4\xbd",          // cut off
      "\xed\xa0\x80",      // surrogate
      "\xf0\x80\x80\x80",  // overlong
      "\xf4\x90\x80\x80",  // past U+10FFFF
      "\xff",
  };
  for (const std::string& text : ill_formed) {
    const ClassifiedChar found = classify_char(text, 0);
    EXPECT_EQ(found.num_bytes, 1u) << testing::PrintToString(text);
    EXPECT_EQ(found.char_class, CharClass::other) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace tessera
