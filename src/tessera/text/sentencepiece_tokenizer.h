// SentencepieceTokenizer: a SentencePiece .model, Llama's among them, through libsentencepiece or, to the
// same ids, by merges of our own.
//
// Opened by open_tokenizer. The library puts a space before a text and treats a text as one, so a document is
// never given in parts. No ids are added: <s> before texts is the text blocks' and the prompt's, </s> at the
// end of documents the corpus builder's, as with every tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/sentencepiece_merges.h"
#include "tessera/text/tokenizer.h"
#include "tessera/text/tokenizer_config.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tessera {

class SentencepieceTokenizer : public Tokenizer {
 public:
  explicit SentencepieceTokenizer(const std::filesystem::path& path);
  ~SentencepieceTokenizer() override;

  int vocab_size() const override;
  std::unique_ptr<TextEncoder> make_encoder() const override;
  std::string text_of(std::int32_t id) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  // <s>, unless add_bos_token is false in the config. Throws Error where add_eos_token is true: a text would
  // lose what stands behind it.
  std::optional<std::int32_t> begin_of_text() const override;
  std::optional<std::int32_t> end_of_document() const override;
  bool encodes_parts_alone() const override { return false; }

 private:
  class Encoder;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  bool by_words_ = false;
  std::filesystem::path config_file_;  // beside the model; need not be there
  TokenizerConfig config_;
  std::optional<SentencepieceMerges> merges_;  // of words; none: the library's
};

}  // namespace tessera
