// BpeTokenizer: byte-level BPE as GPT-2 has it, text to ids and back.
//
// Loaded from vocab.json and merges.txt or built from a trained BpeVocabulary; used by the data builder
// (through one BpeEncoder per thread, which remembers words), by generation and by evaluation, and as the
// model inside an HfTokenizer. Immutable: safe to use from any number of threads. For any bytes, UTF-8 or
// not, decode(encode(bytes)) == bytes.
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
#include "tessera/text/tokenizer.h"

namespace tessera {

// What the texts may hold: any bytes, or well-formed UTF-8 only. 13 bytes are in no UTF-8 text, and
// GPT-NeoX's vocabulary, learnt from such texts, has no tokens for them.
enum class BpeInput { any_bytes, utf8 };

class BpeTokenizer : public Tokenizer {
 public:
  // Throws Error when a byte that the input may hold has no token.
  explicit BpeTokenizer(BpeVocabulary vocabulary, BpeInput input = BpeInput::any_bytes);
  static BpeTokenizer load(const std::filesystem::path& folder);

  // A special token's text, "<|endoftext|>" say, is ordinary text here; ask id_of for its id.
  std::vector<std::int32_t> encode(std::string_view text) const override;
  void encode(std::string_view text, std::vector<std::int32_t>& append_to) const;
  std::unique_ptr<TextEncoder> make_encoder() const override;

  // One piece of the pretokenizer's split.
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& append_to) const;

  std::string text_of(std::int32_t id) const override;

  int vocab_size() const override { return static_cast<int>(vocabulary_.tokens.size()); }

  // `token` as it decodes: "<|endoftext|>", " the". A search through the whole vocabulary: for a few
  // look-ups.
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::int32_t> end_of_document() const override { return id_of("<|endoftext|>"); }
  bool encodes_parts_alone() const override { return true; }

  const BpeVocabulary& vocabulary() const { return vocabulary_; }

 private:
  BpeVocabulary vocabulary_;
  MergeTable merges_;
  std::array<std::int32_t, 256> id_of_byte_{};
};

}  // namespace tessera
