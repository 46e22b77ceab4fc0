// Where a long text may be cut so that its parts, encoded alone, give the ids of the whole.
//
// Used by CorpusPieces to encode one document on many threads.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

// The first safe cut at or after `from` (at least 1), or text.size() when there is none: right before a
// space that follows a character other than whitespace and precedes an ASCII letter or any character beyond
// ASCII. Safe for encoders that split with GPT-2's pattern or its descendants (Llama 3, Qwen 2) and treat
// each piece on its own; the .cpp has the proof. A script without spaces has few such cuts.
std::size_t find_text_cut(std::string_view text, std::size_t from);

}  // namespace tessera
