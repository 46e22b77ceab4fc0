// WordpieceTokenizer: BERT's tokenizer, from its vocab.txt: one token per line, the id is the line's number.
//
// Opened by open_tokenizer. A word becomes the longest token it starts with, then the longest "##" token that
// goes on, and so forth; a word that cannot be made so is [UNK]. A vocabulary without a capital letter
// (outside of its bracketed tokens) is an uncased one: text is put into lower case and loses its accents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/text/added_tokens.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

class WordpieceTokenizer : public Tokenizer {
 public:
  explicit WordpieceTokenizer(std::vector<std::string> tokens);
  static WordpieceTokenizer load(const std::filesystem::path& path);
  // Moved, never copied: the tables point into the tokens.
  WordpieceTokenizer(WordpieceTokenizer&&) = default;
  WordpieceTokenizer& operator=(WordpieceTokenizer&&) = default;

  int vocab_size() const override { return static_cast<int>(tokens_.size()); }
  std::unique_ptr<TextEncoder> make_encoder() const override;
  std::string text_of(std::int32_t id) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::int32_t> end_of_document() const override { return id_of("[SEP]"); }
  bool encodes_parts_alone() const override { return true; }

  bool lower_case() const { return lower_case_; }

 private:
  class Encoder;
  using IdsByText = std::unordered_map<std::string_view, std::int32_t>;

  // One word of BertWords.
  void encode_word(std::string_view word, std::vector<std::int32_t>& append_to) const;

  std::vector<std::string> tokens_;
  IdsByText at_start_, inside_;  // keys are parts of tokens_; those inside without their "##"
  AddedTokens special_;
  std::int32_t unknown_ = 0;
  std::size_t longest_ = 0;  // token, in bytes
  bool lower_case_ = false;
};

}  // namespace tessera
