#include "tessera/text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

TEST(ByteAlphabet, SpellsLikeGpt2) {
  EXPECT_EQ(spell_bytes(" the"), "\u0120the");
  EXPECT_EQ(spell_bytes("\n"), "\u010a");
  EXPECT_EQ(spell_bytes(std::string_view("\0", 1)), "\u0100");
  EXPECT_EQ(spell_bytes("\x7f\xad\xff"), "\u0121\u0143\u00ff");
  EXPECT_EQ(spell_bytes("\u00e9"), "\u00c3\u00a9");
}

TEST(ByteAlphabet, IsAOneToOneSpellingOfAllBytes) {
  std::set<std::string> spellings;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    EXPECT_EQ(unspell_bytes(spell_bytes(bytes)), bytes);
    spellings.insert(spell_bytes(bytes));
  }
  EXPECT_EQ(spellings.size(), 256u);
}

TEST(ByteAlphabet, OrdersBytesByTheirCharacters) {
  const auto order = bytes_in_alphabet_order();
  EXPECT_EQ(order[0], '!');
  EXPECT_EQ(order[93], '~');
  EXPECT_EQ(order[94], 0xa1);
  EXPECT_EQ(order[187], 0xff);
  EXPECT_EQ(order[188], 0x00);
  EXPECT_EQ(order[220], ' ');  // GPT-2's id of a space
  EXPECT_EQ(order[255], 0xad);
}

TEST(ByteAlphabet, RefusesOtherCharacters) {
  for (const char* text : {" ", "\n", "\u0144", "\u2581the", "\xc4", "\xff", "\u00ad"}) {
    EXPECT_EQ(unspell_bytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tessera
