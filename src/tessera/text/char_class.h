// CharClass: the four kinds of character that GPT-2's split pattern tells apart.
//
// Used by pretokenize. The table is ours, not the system's regex library's, so that the same text has the
// same ids on every machine: it is the general categories of Unicode 16.0, the version that Hugging Face's
// tokenizers 0.23 carries. Tests compare it with PCRE2, code point by code point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class CharClass : std::uint8_t {
  other,   // everything else, bytes that are not UTF-8 among it
  letter,  // \p{L}
  number,  // \p{N}
  space,   // \s, the White_Space property
};

CharClass class_of(char32_t code_point);

struct ClassifiedChar {
  CharClass char_class;
  std::size_t num_bytes;
};

// The character that starts at text[at]. A byte that begins no well-formed UTF-8 sequence is a character of
// its own, of class other (as U+FFFD is), so no byte is ever lost.
ClassifiedChar classify_char(std::string_view text, std::size_t at);

}  // namespace tessera
