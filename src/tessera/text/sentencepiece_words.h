// The words of a text that a SentencePiece BPE such as Llama's may encode one by one.
//
// Part of SentencepieceTokenizer. A BPE never merges across two characters that no piece holds in a row. If
// no piece has a space after something else, and none a newline beside anything, then a text may be cut
// there: in front of spaces and around newlines. That holds for a model that takes text as it is (no
// normaliser, spaces kept) and spells what it does not know in bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tessera {

inline constexpr std::string_view kSentencepieceSpace = "\u2581";  // how pieces spell a space

// `model` is the whole .model file, a serialised protobuf, that the processor has loaded.
bool sentencepiece_words_stand_alone(std::string_view model,
                                     const sentencepiece::SentencePieceProcessor& processor);

// The end of the word that starts at text[at], its leading spaces included; a run of newlines is a word.
std::size_t sentencepiece_word_end(std::string_view text, std::size_t at);

}  // namespace tessera
