#include "tessera/text/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/text/sentencepiece_words.h"
#include "tessera/text/word_cache.h"

namespace tessera {
SentencepieceTokenizer::SentencepieceTokenizer(const std::filesystem::path& path)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const std::string bytes = read_file(path);
  TS_CHECK(!bytes.empty(), "{}: the file is empty, expected a SentencePiece model", path.string());
  const sentencepiece::util::Status status = processor_->LoadFromSerializedProto(bytes);
  TS_CHECK(status.ok(), "{}: not a SentencePiece model: {}", path.string(), status.ToString());
  by_words_ = sentencepiece_words_stand_alone(bytes, *processor_);
  if (by_words_) merges_ = SentencepieceMerges::of_model(bytes);
  config_file_ = path.parent_path() / kTokenizerConfigFile;
  config_ = read_tokenizer_config(path.parent_path());
}

SentencepieceTokenizer::~SentencepieceTokenizer() = default;

// The library takes a text as one, with an agenda of all its pairs: 0.5 MB/s on a few megabytes. Where the
// model allows it, its words are encoded alone and remembered. Those that our own merges do not take go to
// the library, after a newline that keeps it from putting a space there; its ids are known and left out
// again.
class SentencepieceTokenizer::Encoder : public TextEncoder {
 public:
  explicit Encoder(const SentencepieceTokenizer& tokenizer)
      : processor_(*tokenizer.processor_),
        by_words_(tokenizer.by_words_),
        merges_(tokenizer.merges_ ? &*tokenizer.merges_ : nullptr) {
    if (by_words_) num_newline_ids_ = run("\n").size();
  }

  void encode(std::string_view text, std::vector<std::int32_t>& append_to) override {
    const std::size_t first = by_words_ ? sentencepiece_word_end(text, 0) : text.size();
    encode_first(text.substr(0, first), append_to);
    for (std::size_t at = first; at < text.size();) {
      const std::size_t end = sentencepiece_word_end(text, at);
      words_.encode(text, at, end - at, append_to,
                    [&](std::string_view word, std::vector<std::int32_t>& ids) { encode_word(word, ids); });
      at = end;
    }
  }

 private:
  // With the space that the library puts before a text, unless the text is empty.
  void encode_first(std::string_view word, std::vector<std::int32_t>& append_to) {
    if (merges_ && !word.empty() && merges_->encode(prefixed_.assign(" ").append(word), append_to)) return;
    append(run(word), 0, append_to);
  }

  void encode_word(std::string_view word, std::vector<std::int32_t>& append_to) {
    if (merges_ && merges_->encode(word, append_to)) return;
    append(run(prefixed_.assign("\n").append(word)), num_newline_ids_, append_to);
  }

  const std::vector<int>& run(std::string_view text) {
    const sentencepiece::util::Status status = processor_.Encode(text, &ids_);
    TS_CHECK(status.ok(), "SentencePiece could not encode a text of {} bytes: {}", text.size(),
             status.ToString());
    return ids_;
  }

  static void append(const std::vector<int>& ids, std::size_t from, std::vector<std::int32_t>& append_to) {
    append_to.insert(append_to.end(), ids.begin() + static_cast<std::ptrdiff_t>(from), ids.end());
  }

  const sentencepiece::SentencePieceProcessor& processor_;
  bool by_words_;
  const SentencepieceMerges* merges_;  // null: the library's
  std::size_t num_newline_ids_ = 0;
  WordCache words_;
  std::vector<int> ids_;
  std::string prefixed_;
};

std::unique_ptr<TextEncoder> SentencepieceTokenizer::make_encoder() const {
  return std::make_unique<Encoder>(*this);
}

int SentencepieceTokenizer::vocab_size() const {
  return processor_->GetPieceSize();
}

std::string SentencepieceTokenizer::text_of(std::int32_t id) const {
  if (processor_->IsControl(id)) return "";
  const std::string& piece = processor_->IdToPiece(id);
  if (processor_->IsByte(id))
    return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const bool space = std::string_view(piece).substr(at).starts_with(kSentencepieceSpace);
    text.push_back(space ? ' ' : piece[at]);
    at += space ? kSentencepieceSpace.size() : 1;
  }
  return text;
}

std::string SentencepieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  for (std::size_t i = 0; i < ids.size(); ++i) check_id(ids[i], i);
  std::string text;
  const sentencepiece::util::Status status =
      processor_->Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  TS_CHECK(status.ok(), "SentencePiece could not decode {} ids: {}", ids.size(), status.ToString());
  return text;
}

std::optional<std::int32_t> SentencepieceTokenizer::id_of(std::string_view token) const {
  const int id = processor_->PieceToId(token);
  if (processor_->IdToPiece(id) != token) return std::nullopt;  // the library gives <unk> for a stranger
  return id;
}

// The library gives -1 for a piece that the model does not have, as T5's no <s>, or that is not a control.
std::optional<std::int32_t> SentencepieceTokenizer::begin_of_text() const {
  TS_CHECK(
      !config_.add_eos_token.value_or(false),
      "{}: found add_eos_token: true, expected false: of what transformers adds to a text, only the token "
      "before it is added here",
      config_file_.string());
  const int id = processor_->bos_id();
  if (id < 0 || !config_.add_bos_token.value_or(true)) return std::nullopt;
  return id;
}

std::optional<std::int32_t> SentencepieceTokenizer::end_of_document() const {
  const int id = processor_->eos_id();
  if (id < 0) return std::nullopt;
  return id;
}

}  // namespace tessera
