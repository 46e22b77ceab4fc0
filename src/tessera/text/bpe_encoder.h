// BpeEncoder: a BpeTokenizer's encode with a memory for words, several times as fast on long texts.
//
// Made by whoever encodes much text, one per thread: it changes as it works, so it is not shared. The ids are
// those of BpeTokenizer::encode, whatever was encoded before.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/tokenizer.h"
#include "tessera/text/word_cache.h"

namespace tessera {

class BpeEncoder : public TextEncoder {
 public:
  explicit BpeEncoder(const BpeTokenizer& tokenizer);  // which must outlive the encoder

  void encode(std::string_view text, std::vector<std::int32_t>& append_to) override;

 private:
  const BpeTokenizer& tokenizer_;
  WordCache words_;
};

}  // namespace tessera
