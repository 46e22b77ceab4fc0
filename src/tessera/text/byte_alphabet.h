// The byte alphabet of GPT-2: how vocab.json and merges.txt spell the 256 bytes as printable characters.
//
// Used by bpe_vocabulary (files) and bpe_trainer (order of the first 256 ids). A printable Latin-1 byte is
// spelled as itself, the other 68 as U+0100 and up in the order of the bytes: space is U+0120, "Ġ".
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// The bytes in the order of their characters, which is the order of GPT-2's first 256 ids.
std::array<unsigned char, 256> bytes_in_alphabet_order();

// " the" -> "Ġthe"
std::string spell_bytes(std::string_view bytes);

// "Ġthe" -> " the"; nothing when a character is not of the alphabet.
std::optional<std::string> unspell_bytes(std::string_view spelling);

}  // namespace tessera
