#include "tessera/text/nfc.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

std::string nfc(std::string_view text) {
  std::string buffer = "what was there before";
  return std::string(to_nfc(text, buffer));
}

TEST(Nfc, Composes) {
  EXPECT_EQ(nfc("plain"), "plain");
  EXPECT_EQ(nfc("cafe\u0301"), "caf\u00e9");
  EXPECT_EQ(nfc("caf\u00e9"), "caf\u00e9");
  EXPECT_EQ(nfc("\u1112\u1161\u11ab"), "\ud55c");  // Hangul is composed by rule
  EXPECT_EQ(nfc("a\u0323\u0302"), "\u1ead");
  EXPECT_EQ(nfc("a\u0302\u0323"), "\u1ead");  // marks are put in order first
  EXPECT_EQ(nfc("\u212b"), "\u00c5");         // the angstrom sign is the letter
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");   // excluded from composition
}

// Longer than a chunk, with a pair that composes at every place where a chunk might end.
TEST(Nfc, DoesNotCutWhatComposes) {
  for (std::size_t before = 65530; before < 65542; ++before) {
    const std::string padding(before, 'x');
    ASSERT_EQ(nfc(padding + "e\u0301 end"), padding + "\u00e9 end") << before;
  }
  std::string long_text, expected;
  for (int i = 0; i < 60000; ++i) {
    long_text += "e\u0301";
    expected += "\u00e9";
  }
  EXPECT_TRUE(nfc(long_text) == expected);
}

}  // namespace
}  // namespace tessera
