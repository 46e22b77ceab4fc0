// HfTokenizer: a Hugging Face tokenizer.json of a byte-level BPE: GPT-NeoX's, Pythia's, GPT-2's.
//
// Opened by open_tokenizer. A text is cut at the added tokens that are looked for as given, the rest is
// brought into normal form, cut at the other added tokens, and what is left is byte-level BPE. Bytes that are
// not UTF-8 become U+FFFD first, as they do when the library reads a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/text/added_tokens.h"
#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/hf_tokenizer_file.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

class HfTokenizer : public Tokenizer {
 public:
  explicit HfTokenizer(HfTokenizerFile file);
  static HfTokenizer load(const std::filesystem::path& path);

  int vocab_size() const override { return bpe_.vocab_size(); }
  std::unique_ptr<TextEncoder> make_encoder() const override;
  std::string text_of(std::int32_t id) const override { return bpe_.text_of(id); }
  std::optional<std::int32_t> id_of(std::string_view token) const override { return bpe_.id_of(token); }
  std::optional<std::int32_t> begin_of_text() const override { return begin_of_text_; }
  std::optional<std::int32_t> end_of_document() const override { return bpe_.end_of_document(); }
  bool encodes_parts_alone() const override { return encodes_parts_alone_; }

 private:
  class Encoder;

  BpeTokenizer bpe_;
  AddedTokens in_text_;        // looked for in the text as given
  AddedTokens in_normalized_;  // looked for in the normalised text
  bool nfc_ = false;
  std::optional<std::int32_t> begin_of_text_;
  bool encodes_parts_alone_ = true;
};

}  // namespace tessera
