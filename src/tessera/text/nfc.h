// Unicode's normal form C: what composes is composed ("e" + U+0301 is "é"), the normaliser of GPT-NeoX.
//
// Used by HfTokenizer. Through ICU: the composition tables are too large to keep a copy of, and what they say
// of a character never changes once it is in Unicode.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// `text` itself when it is ASCII, otherwise its normal form in `buffer`. The text is well-formed UTF-8.
std::string_view to_nfc(std::string_view text, std::string& buffer);

}  // namespace tessera
