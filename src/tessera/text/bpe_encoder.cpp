#include "tessera/text/bpe_encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/text/pretokenize.h"

namespace tessera {
namespace {

constexpr int kSetBits =
    15;  // 2^15 sets of two entries are 4 MiB: the words of a large English corpus in use

std::size_t set_of(const std::array<std::uint64_t, 4>& key) {
  std::uint64_t hash = key[0] * 0x9e3779b97f4a7c15u ^ key[1] * 0xc2b2ae3d27d4eb4fu ^
                       key[2] * 0x165667b19e3779f9u ^ key[3] * 0xd6e8feb86659fd93u;
  hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
  return hash >> (64 - kSetBits);
}

// All four words at once: operator== of arrays calls memcmp, which takes longer than the rest of a look-up.
bool same(const std::array<std::uint64_t, 4>& a, const std::array<std::uint64_t, 4>& b) {
  return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
}

}  // namespace

BpeEncoder::BpeEncoder(const BpeTokenizer& tokenizer)
    : tokenizer_(tokenizer), entries_(std::size_t{2} << kSetBits) {}

void BpeEncoder::encode(std::string_view text, std::vector<std::int32_t>& append_to) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = piece_end(text, at);
    const std::string_view piece = text.substr(at, end - at);
    if (piece.size() <= kMaxWordBytes) {
      encode_word(make_key(text, at, piece.size()), piece, append_to);
    } else {
      tokenizer_.encode_piece(piece, append_to);
    }
    at = end;
  }
}

BpeEncoder::WordKey BpeEncoder::make_key(std::string_view text, std::size_t at, std::size_t num_bytes) {
  // Read all 32 bytes where the text has them and blank those past the word: no loop of unknown length.
  static constexpr auto kOnesThenZeros = [] {
    std::array<unsigned char, 2 * sizeof(WordKey)> bytes{};
    for (std::size_t i = 0; i < sizeof(WordKey); ++i) bytes[i] = 0xff;
    return bytes;
  }();
  WordKey key{};
  if (text.size() - at >= sizeof key) {
    std::memcpy(key.data(), text.data() + at, sizeof key);
  } else {
    std::memcpy(key.data(), text.data() + at, num_bytes);
  }
  WordKey mask;
  std::memcpy(mask.data(), kOnesThenZeros.data() + sizeof(WordKey) - num_bytes, sizeof mask);
  for (std::size_t i = 0; i < key.size(); ++i) key[i] &= mask[i];
  key[3] |= static_cast<std::uint64_t>(num_bytes) << 56;
  return key;
}

void BpeEncoder::remember_word(const WordKey& key, std::string_view word, Entry& entry,
                               std::vector<std::int32_t>& append_to) {
  const std::size_t first = append_to.size();
  tokenizer_.encode_piece(word, append_to);
  const std::size_t num_ids = append_to.size() - first;
  if (num_ids > kMaxWordIds) return;
  entry.key = key;
  entry.num_ids = static_cast<std::int32_t>(num_ids);
  std::copy(append_to.begin() + static_cast<std::ptrdiff_t>(first), append_to.end(), entry.ids.begin());
}

void BpeEncoder::encode_word(const WordKey& key, std::string_view word,
                             std::vector<std::int32_t>& append_to) {
  Entry* entry = &entries_[2 * set_of(key)];
  if (!same(entry->key, key)) {
    std::swap(entry[0], entry[1]);
    if (!same(entry->key, key)) return remember_word(key, word, *entry, append_to);
  }
  append_to.push_back(entry->ids[0]);
  for (std::int32_t i = 1; i < entry->num_ids; ++i)
    append_to.push_back(entry->ids[static_cast<std::size_t>(i)]);
}

}  // namespace tessera
