#include "tessera/text/pretokenize.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "tessera/text/char_class.h"

namespace tessera {
namespace {

// Length of the contraction at text[at], which is an apostrophe; 0 when there is none.
std::size_t contraction_size(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') return 2;
  if (rest == "re" || rest == "ve" || rest == "ll") return 3;
  return 0;
}

// How many of the eight bytes from `bytes` on are ASCII letters, up to the first that is not. Eight at a time
// in one register: a loop over bytes mispredicts its exit once per word, which costs more than the scan.
std::size_t count_leading_ascii_letters(const char* bytes) {
  constexpr std::uint64_t kEach = 0x0101010101010101u;
  constexpr std::uint64_t kHighBits = 0x80 * kEach;
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  const std::uint64_t lower = (word | 0x20 * kEach) & ~kHighBits;
  const std::uint64_t from_a = lower + (0x80 - 'a') * kEach;      // high bit: at least 'a'
  const std::uint64_t past_z = lower + (0x80 - 'z' - 1) * kEach;  // high bit: more than 'z'
  const std::uint64_t not_letter = (~from_a | past_z | word) & kHighBits;
  return static_cast<std::size_t>(std::countr_zero(not_letter)) / 8;
}

static_assert(std::endian::native == std::endian::little, "the first byte must be the lowest");

std::size_t skip_ascii_letters(std::string_view text, std::size_t at) {
  while (text.size() - at >= 8) {
    const std::size_t num_letters = count_leading_ascii_letters(text.data() + at);
    at += num_letters;
    if (num_letters < 8) break;
  }
  return at;
}

// The end of the run of characters of one class that starts at text[at].
std::size_t run_end(std::string_view text, std::size_t at, CharClass wanted) {
  if (wanted == CharClass::letter) at = skip_ascii_letters(text, at);
  while (at < text.size()) {
    const ClassifiedChar next = classify_char(text, at);
    if (next.char_class != wanted) break;
    at += next.num_bytes;
  }
  return at;
}

// \s+(?!\S)|\s+ : a run of spaces, but its last one is left to the word that follows, unless it is alone.
std::size_t spaces_end(std::string_view text, std::size_t at) {
  std::size_t last = at;
  std::size_t end = at;
  while (end < text.size()) {
    const ClassifiedChar next = classify_char(text, end);
    if (next.char_class != CharClass::space) break;
    last = end;
    end += next.num_bytes;
  }
  return end == text.size() || last == at ? end : last;
}

}  // namespace

std::size_t piece_end(std::string_view text, std::size_t at) {
  if (text[at] == '\'') {
    if (const std::size_t size = contraction_size(text, at); size > 0) return at + size;
  }
  // " ?" takes U+0020 only; another kind of space never joins the word after it.
  const std::size_t start = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;
  const ClassifiedChar first = classify_char(text, start);
  if (first.char_class == CharClass::space) return spaces_end(text, at);
  return run_end(text, start + first.num_bytes, first.char_class);
}

}  // namespace tessera
