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
}

SentencepieceTokenizer::~SentencepieceTokenizer() = default;

// The library takes a text as one, with an agenda of all its pairs: 0.5 MB/s on a few megabytes. Where the
// model allows it, its words are encoded alone and remembered. A newline before a word keeps the library from
// putting a space there; its ids are known and left out again.
class SentencepieceTokenizer::Encoder : public TextEncoder {
 public:
  Encoder(const sentencepiece::SentencePieceProcessor& processor, bool by_words)
      : processor_(processor), by_words_(by_words) {
    if (by_words) num_newline_ids_ = run("\n").size();
  }

  void encode(std::string_view text, std::vector<std::int32_t>& append_to) override {
    const std::size_t first = by_words_ ? sentencepiece_word_end(text, 0) : text.size();
    append(run(text.substr(0, first)), 0, append_to);
    for (std::size_t at = first; at < text.size();) {
      const std::size_t end = sentencepiece_word_end(text, at);
      words_.encode(text, at, end - at, append_to,
                    [&](std::string_view word, std::vector<std::int32_t>& ids) {
                      after_newline_.assign("\n").append(word);
                      append(run(after_newline_), num_newline_ids_, ids);
                    });
      at = end;
    }
  }

 private:
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
  std::size_t num_newline_ids_ = 0;
  WordCache words_;
  std::vector<int> ids_;
  std::string after_newline_;
};

std::unique_ptr<TextEncoder> SentencepieceTokenizer::make_encoder() const {
  return std::make_unique<Encoder>(*processor_, by_words_);
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

std::optional<std::int32_t> SentencepieceTokenizer::end_of_document() const {
  const int id = processor_->eos_id();
  if (id < 0) return std::nullopt;
  return id;
}

}  // namespace tessera
