// Why the cut is safe. GPT-2 splits a text into pieces with successive matches of
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Call x the character before the cut (not whitespace) and _ the space after it.
// 1. A match ends at the cut. Every character is matched by something, and an alternative has whitespace
//    either in its first place only or in all places, so no match holds x and _ in a row.
// 2. The part on the left, alone, splits the same. A match that ends before the cut has decided on
//    characters left of it: the run of whitespace under the look-ahead (?!\S) is followed by something on
//    the left, since the left part ends in x. The match that ends at the cut stops there because _ is in
//    none of the classes that hold x; the end of the text stops it as well. The contractions hold no
//    space, so none of them reaches over the cut.
// 3. The part on the right, alone, splits the same: matching begins at the cut in both cases and the
//    pattern does not look behind.
//
// By this proof a newline after x would do too. It would not for the descendants of the pattern, where
// punctuation takes the newlines behind it, [^\s\p{L}\p{N}]+[\r\n]*: "end.\n" is "end" ".\n" there. They
// have other whitespace than \r and \n in the same places only, so for a space the proof holds unchanged.
// The proof does not need the letter after the space; it keeps runs of spaces whole, for which some
// vocabularies have ids.
#include "tessera/data/text_cut.h"

#include <algorithm>

namespace tessera {
namespace {

bool is_ascii_letter(unsigned char c) {
  return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

// Does `text` end in whitespace, by Unicode's White_Space or PCRE2's \s (which adds U+180E)? Compared as
// the bytes of UTF-8; a control character counts as whitespace, which only costs a cut.
bool ends_in_space(std::string_view text) {
  const auto last = static_cast<unsigned char>(text.back());
  if (last < 0x80) return last <= ' ' || last == 0x7f;
  constexpr std::string_view kSpaces[] = {
      "\u0085", "\u00a0", "\u1680", "\u180e", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005",
      "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  return std::any_of(std::begin(kSpaces), std::end(kSpaces),
                     [&](auto space) { return text.ends_with(space); });
}

}  // namespace

std::size_t find_text_cut(std::string_view text, std::size_t from) {
  for (std::size_t cut = std::max<std::size_t>(from, 1); cut + 1 < text.size(); ++cut) {
    cut = text.find(' ', cut);
    if (cut == std::string_view::npos || cut + 1 == text.size()) break;
    const auto next = static_cast<unsigned char>(text[cut + 1]);
    if ((is_ascii_letter(next) || next >= 0x80) && !ends_in_space(text.substr(0, cut))) return cut;
  }
  return text.size();
}

}  // namespace tessera
