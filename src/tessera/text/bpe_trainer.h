// Training of a byte-level BPE: from the words of a text to a BpeVocabulary.
//
// Used by `tessera data`. Each step merges the pair of neighbours that is most frequent inside words; of
// equally frequent pairs the one with the lowest left id, then the lowest right id. The result depends on
// nothing else, and is that of Hugging Face's trainer given the same texts. Ids: the bytes in GPT-2's order,
// then the merges' results, then the special tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/text/bpe_vocabulary.h"

namespace tessera {

struct StringHash {
  using is_transparent = void;  // look-up by string_view without making a string
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

// How often each piece of the pretokenizer's split occurs.
using WordCounts = std::unordered_map<std::string, std::int64_t, StringHash, std::equal_to<>>;

struct BpeTrainOptions {
  int vocab_size = 8192;           // bytes and special tokens included
  std::int64_t min_frequency = 2;  // a rarer pair is not merged
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  std::function<void(int num_tokens, int vocab_size)> progress = nullptr;  // called after every merge
};

// Adds one document's words to `counts`.
void count_words(std::string_view document, WordCounts& counts);

// Throws Error when the words do not hold enough frequent pairs for the vocabulary asked for.
BpeVocabulary train_bpe(const WordCounts& counts, const BpeTrainOptions& options);
BpeVocabulary train_bpe(std::string_view document, const BpeTrainOptions& options);

}  // namespace tessera
