// BpeEncoder: a BpeTokenizer's encode with a memory for words, several times as fast on long texts.
//
// Made by whoever encodes much text, one per thread: it changes as it works, so it is not shared. The ids are
// those of BpeTokenizer::encode, whatever was encoded before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/text/bpe_tokenizer.h"

namespace tessera {

class BpeEncoder {
 public:
  explicit BpeEncoder(const BpeTokenizer& tokenizer);  // which must outlive the encoder

  void encode(std::string_view text, std::vector<std::int32_t>& append_to);

 private:
  // The bytes of a word of up to 31 bytes, zero-padded, and its length in the last byte.
  using WordKey = std::array<std::uint64_t, 4>;
  static constexpr std::size_t kMaxWordBytes = sizeof(WordKey) - 1;
  static constexpr std::size_t kMaxWordIds = 7;

  struct alignas(64) Entry {  // one cache line
    WordKey key{};            // all zero: empty, for no word has length 0
    std::int32_t num_ids = 0;
    std::array<std::int32_t, kMaxWordIds> ids{};
  };

  static WordKey make_key(std::string_view text, std::size_t at, std::size_t num_bytes);
  void encode_word(const WordKey& key, std::string_view word, std::vector<std::int32_t>& append_to);
  void remember_word(const WordKey& key, std::string_view word, Entry& entry,
                     std::vector<std::int32_t>& append_to);

  const BpeTokenizer& tokenizer_;
  std::vector<Entry> entries_;  // sets of two, the fresher first; a newcomer drops the other
};

}  // namespace tessera
