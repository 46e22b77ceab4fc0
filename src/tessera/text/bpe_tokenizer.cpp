#include "tessera/text/bpe_tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/text/bpe_encoder.h"
#include "tessera/text/pretokenize.h"

namespace tessera {

namespace {

bool occurs_in_utf8(std::size_t byte) {
  return byte != 0xc0 && byte != 0xc1 && byte <= 0xf4;
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary, BpeInput input)
    : vocabulary_(std::move(vocabulary)), merges_(vocabulary_.merges) {
  id_of_byte_.fill(-1);
  for (std::size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    const std::string& token = vocabulary_.tokens[id];
    if (token.size() == 1) id_of_byte_[static_cast<unsigned char>(token[0])] = static_cast<std::int32_t>(id);
  }
  for (std::size_t byte = 0; byte < id_of_byte_.size(); ++byte) {
    const bool needed = input == BpeInput::any_bytes || occurs_in_utf8(byte);
    TS_CHECK(id_of_byte_[byte] >= 0 || !needed, "the vocabulary has no token for byte {}", byte);
  }
}

BpeTokenizer BpeTokenizer::load(const std::filesystem::path& folder) {
  return BpeTokenizer(load_bpe_vocabulary(folder));
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encode(text, ids);
  return ids;
}

void BpeTokenizer::encode(std::string_view text, std::vector<std::int32_t>& append_to) const {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = piece_end(text, at);
    encode_piece(text.substr(at, end - at), append_to);
    at = end;
  }
}

void BpeTokenizer::encode_piece(std::string_view piece, std::vector<std::int32_t>& append_to) const {
  const std::size_t first = append_to.size();
  append_to.resize(first + piece.size());
  const std::span<std::int32_t> ids = std::span(append_to).subspan(first);
  for (std::size_t i = 0; i < piece.size(); ++i) ids[i] = id_of_byte_[static_cast<unsigned char>(piece[i])];
  append_to.resize(first + merges_.merge(ids));
}

std::unique_ptr<TextEncoder> BpeTokenizer::make_encoder() const {
  return std::make_unique<BpeEncoder>(*this);
}

std::string BpeTokenizer::text_of(std::int32_t id) const {
  return vocabulary_.tokens[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> BpeTokenizer::id_of(std::string_view token) const {
  const auto found = std::find(vocabulary_.tokens.begin(), vocabulary_.tokens.end(), token);
  if (found == vocabulary_.tokens.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - vocabulary_.tokens.begin());
}

}  // namespace tessera
