// UTF-8, one character at a time: decoding, encoding, and the repair of bytes that are not UTF-8.
//
// Used by the character classes, and by the tokenizers whose rules are about characters, not bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

struct DecodedChar {
  char32_t code_point = 0;
  std::size_t num_bytes = 0;  // 0: text[at] begins no well-formed sequence
};

// The sequence of two to four bytes that starts at text[at], whose high bit is set. Overlong forms,
// surrogates and code points past U+10FFFF are not well-formed.
DecodedChar decode_multibyte(std::string_view text, std::size_t at);

// Any character; an ill-formed byte is U+FFFD, one byte long.
DecodedChar decode_char(std::string_view text, std::size_t at);

void append_utf8(char32_t code_point, std::string& append_to);

// The end of the ASCII characters from text[at] on.
std::size_t ascii_end(std::string_view text, std::size_t at);

// `text` itself when it is UTF-8, otherwise a repaired copy in `buffer`: each maximal ill-formed stretch
// becomes one U+FFFD, as Python and Rust replace it when they read a file.
std::string_view well_formed(std::string_view text, std::string& buffer);

}  // namespace tessera
