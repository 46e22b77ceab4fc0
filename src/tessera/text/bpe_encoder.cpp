#include "tessera/text/bpe_encoder.h"

#include "tessera/text/pretokenize.h"

namespace tessera {

BpeEncoder::BpeEncoder(const BpeTokenizer& tokenizer) : tokenizer_(tokenizer) {}

void BpeEncoder::encode(std::string_view text, std::vector<std::int32_t>& append_to) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = piece_end(text, at);
    words_.encode(text, at, end - at, append_to, [&](std::string_view piece, std::vector<std::int32_t>& ids) {
      tokenizer_.encode_piece(piece, ids);
    });
    at = end;
  }
}

}  // namespace tessera
