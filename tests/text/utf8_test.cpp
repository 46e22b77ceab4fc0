#include "tessera/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

std::string repaired(std::string_view text) {
  std::string buffer = "what was there before";
  return std::string(well_formed(text, buffer));
}

TEST(Utf8, DecodesWhatItEncodes) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    append_utf8(c, text);
    const DecodedChar decoded = decode_char(text, 0);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.num_bytes, text.size());
  }
}

// Table 3-7 of the Unicode standard: overlong, surrogate, too large, cut off, a lone continuation.
TEST(Utf8, RefusesIllFormedSequences) {
  for (const char* bytes :
       {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xf0\x9f\x98", "\x80", "\xff"})
    EXPECT_EQ(decode_multibyte(bytes, 0).num_bytes, 0u) << testing::PrintToString(bytes);
}

TEST(Utf8, LeavesGoodTextWhereItIs) {
  const std::string text = "a\u00e9\u20ac\U0001f600 z";
  std::string buffer;
  EXPECT_EQ(well_formed(text, buffer).data(), text.data());
  EXPECT_EQ(repaired(""), "");
}

// What Python's bytes.decode(errors="replace") gives: a stretch that begins a sequence is one U+FFFD.
TEST(Utf8, RepairsAsPythonDoes) {
  EXPECT_EQ(repaired("a\xff\xfe z"), "a\ufffd\ufffd z");
  EXPECT_EQ(repaired("\xe2\x82x"), "\ufffdx");
  EXPECT_EQ(repaired("\xf0\x9f\x98"), "\ufffd");
  EXPECT_EQ(repaired("\xf0\x80\x80\x41"), "\ufffd\ufffd\ufffd\x41");
  EXPECT_EQ(repaired("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(repaired("\xc3\xa9\xc3"), "\u00e9\ufffd");
}

TEST(Utf8, FindsTheEndOfAscii) {
  for (std::size_t size = 0; size < 40; ++size) {
    const std::string text = std::string(size, 'a') + "\u00e9" + std::string(9, 'b');
    EXPECT_EQ(ascii_end(text, 0), size);
    EXPECT_EQ(ascii_end(text, size + 2), text.size());
  }
}

}  // namespace
}  // namespace tessera
