// GPT-2's split of text into pieces; BPE merges never cross the border of a piece.
//
// Used by the tokenizer, the encoder and the trainer. The pattern, first alternative first:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// It is written out by hand because it then runs several times faster than a compiled regular expression and
// does not refuse invalid UTF-8; tests compare it with PCRE2 running the pattern itself.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

// The end of the piece that starts at text[at]; at < text.size(). Pieces follow each other without gaps:
//   for (std::size_t at = 0; at < text.size();) { end = piece_end(text, at); ...; at = end; }
// The end of the text takes part in the split (trailing spaces), so `text` is a whole document, not a chunk.
std::size_t piece_end(std::string_view text, std::size_t at);

}  // namespace tessera
