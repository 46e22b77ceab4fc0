// BpeTokenizer: byte-level BPE as GPT-2 has it, text to ids and back.
//
// Loaded from vocab.json and merges.txt or built from a trained BpeVocabulary; used by the data builder
// (through one BpeEncoder per thread, which remembers words), by generation and by evaluation. Immutable:
// safe to use from any number of threads. For any bytes, UTF-8 or not, decode(encode(bytes)) == bytes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/bpe_vocabulary.h"
#include "tessera/text/merge_table.h"

namespace tessera {

class BpeTokenizer {
 public:
  explicit BpeTokenizer(BpeVocabulary vocabulary);
  static BpeTokenizer load(const std::filesystem::path& folder);

  // A special token's text, "<|endoftext|>" say, is ordinary text here; ask id_of for its id.
  std::vector<std::int32_t> encode(std::string_view text) const;
  void encode(std::string_view text, std::vector<std::int32_t>& append_to) const;

  // One piece of the pretokenizer's split.
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& append_to) const;

  std::string decode(std::span<const std::int32_t> ids) const;

  int vocab_size() const { return static_cast<int>(vocabulary_.tokens.size()); }

  // `token` as it decodes: "<|endoftext|>", " the". A search through the whole vocabulary: for a few
  // look-ups.
  std::optional<std::int32_t> id_of(std::string_view token) const;

  const BpeVocabulary& vocabulary() const { return vocabulary_; }

 private:
  BpeVocabulary vocabulary_;
  MergeTable merges_;
  std::array<std::int32_t, 256> id_of_byte_{};
};

}  // namespace tessera
