#include "tessera/base/printable.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using namespace std::string_literals;

TEST(PrintableTest, ControlCharactersAreSpelledOut) {
  EXPECT_EQ(printable("found '\x1b[2J\r\x7f\0' in a\tfile\nof 2 lines"s),
            "found '\\x1b[2J\\x0d\\x7f\\x00' in a\tfile\nof 2 lines");
}

TEST(PrintableTest, OtherTextIsAsItWas) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("größer \xe6\xbc\xa2 \xff"), "größer \xe6\xbc\xa2 \xff");
  const std::string longest(4000, 'x');
  EXPECT_EQ(printable(longest), longest);
}

TEST(PrintableTest, OfALongTextBothEndsAreShown) {
  EXPECT_EQ(printable("begin" + std::string(5000, 'x') + "end"),
            "begin" + std::string(2995, 'x') + " [... 1008 bytes more ...] " + std::string(997, 'x') + "end");
}

TEST(PrintableTest, NoCharacterIsCut) {
  std::string text = "x";
  for (int i = 0; i < 2000; ++i) text += "\xe6\xbc\xa2";  // 3000 and 5001 bytes in are within one
  const std::string shown = printable(text);
  const std::size_t cut = shown.find(" [... ");
  ASSERT_NE(cut, std::string::npos);
  EXPECT_EQ(cut % 3, 1u) << shown.substr(cut - 5, 40);
  const std::size_t rest = shown.find("...] ") + 5;
  EXPECT_EQ((shown.size() - rest) % 3, 0u);
  EXPECT_EQ(shown.substr(rest, 3), "\xe6\xbc\xa2");
}

}  // namespace
}  // namespace tessera
