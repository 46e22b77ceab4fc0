// Tokenizer: text to ids and back, whichever way the vocabulary was made; and the opener that recognises one.
//
// Opened from a path by open_tokenizer; used by the data commands, generation and evaluation. Immutable: any
// number of threads may use one. Encoding much text goes through a TextEncoder, one per thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Changes as it works (it remembers words), so it is not shared. What was encoded before never changes the
// ids.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  virtual void encode(std::string_view text, std::vector<std::int32_t>& append_to) = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int vocab_size() const = 0;  // ids are below it

  // The encoder must not outlive the tokenizer.
  virtual std::unique_ptr<TextEncoder> make_encoder() const = 0;
  virtual std::vector<std::int32_t> encode(std::string_view text) const;

  // What the id adds to a text that goes on: " the", "ing".
  virtual std::string text_of(std::int32_t id) const = 0;
  // The text of all ids; without the space that some vocabularies put before the first word.
  virtual std::string decode(std::span<const std::int32_t> ids) const;

  // A token as its vocabulary file names it in text: "<|endoftext|>", "[MASK]", "</s>". For a few look-ups.
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;

  // The id that the vocabulary's own program puts before every text: Llama's <s>. encode does not: where it
  // belongs is for the caller to know.
  virtual std::optional<std::int32_t> begin_of_text() const { return std::nullopt; }

  // The id that ends a document of a corpus: <|endoftext|>, [SEP], </s>.
  virtual std::optional<std::int32_t> end_of_document() const = 0;

  // Whether a document that is cut where data/text_cut.h allows may be encoded part by part.
  virtual bool encodes_parts_alone() const = 0;

 protected:
  // Throws Error when an id to decode is not of the vocabulary.
  void check_id(std::int32_t id, std::size_t position) const;
};

// PATH is a Hugging Face tokenizer.json, a SentencePiece .model, a WordPiece vocab.txt, or a folder. Of
// several in a folder the first of these is opened: tokenizer.model, vocab.txt, tokenizer.json, vocab.json
// with merges.txt. The last is GPT-2's own form and refused where a tokenizer_config.json beside it names
// another tokenizer_class. Anything else is refused with what was found there.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

// The files that open_tokenizer reads at `path`, the vocabulary first, under the names by which a folder that
// holds them is recognised. Empty when the path is a folder without a tokenizer.
struct TokenizerFile {
  std::string usual_name;
  std::filesystem::path path;
};
std::vector<TokenizerFile> tokenizer_files(const std::filesystem::path& path);

// Throws Error when the tokenizer at `path` gives ids that a model of this vocabulary has no row for. A
// larger model is fine: vocabularies are padded.
void check_vocabulary_fits(const Tokenizer& tokenizer, const std::filesystem::path& path,
                           std::int64_t model_vocab_size);

}  // namespace tessera
