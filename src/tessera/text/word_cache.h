// WordCache: the ids of the words met lately, so that a text's usual words are encoded once.
//
// Part of an encoder of one thread. A word of up to 31 bytes and 7 ids is kept in one cache line; sets of
// two, the fresher first, a newcomer drops the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

class WordCache {
 public:
  WordCache() : entries_(std::size_t{2} << kSetBits) {}

  // Appends the ids of the word of num_bytes that starts at text[at]; encode_word(word, append_to) is asked
  // when they are not known. The bytes of `text` past the word are looked at, never remembered.
  template <class F>
  void encode(std::string_view text, std::size_t at, std::size_t num_bytes,
              std::vector<std::int32_t>& append_to, F&& encode_word) {
    const std::string_view word = text.substr(at, num_bytes);
    if (num_bytes > kMaxWordBytes) return encode_word(word, append_to);
    const WordKey key = make_key(text, at, num_bytes);
    Entry* entry = &entries_[2 * set_of(key)];
    if (!same(entry->key, key)) {
      std::swap(entry[0], entry[1]);
      if (!same(entry->key, key)) {
        const std::size_t first = append_to.size();
        encode_word(word, append_to);
        return remember(key, first, append_to, *entry);
      }
    }
    for (std::int32_t i = 0; i < entry->num_ids; ++i)
      append_to.push_back(entry->ids[static_cast<std::size_t>(i)]);
  }

 private:
  // The bytes of the word, zero-padded, and its length in the last byte.
  using WordKey = std::array<std::uint64_t, 4>;
  static constexpr std::size_t kMaxWordBytes = sizeof(WordKey) - 1;
  static constexpr std::size_t kMaxWordIds = 7;
  static constexpr int kSetBits = 15;  // 4 MiB: the words of a large English corpus in use

  struct alignas(64) Entry {  // one cache line
    WordKey key{};            // all zero: empty, for no word has length 0
    std::int32_t num_ids = 0;
    std::array<std::int32_t, kMaxWordIds> ids{};
  };

  static std::size_t set_of(const WordKey& key) {
    std::uint64_t hash = key[0] * 0x9e3779b97f4a7c15u ^ key[1] * 0xc2b2ae3d27d4eb4fu ^
                         key[2] * 0x165667b19e3779f9u ^ key[3] * 0xd6e8feb86659fd93u;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    return hash >> (64 - kSetBits);
  }

  // All four words at once: operator== of arrays calls memcmp, which takes longer than the rest of a look-up.
  static bool same(const WordKey& a, const WordKey& b) {
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
  }

  static WordKey make_key(std::string_view text, std::size_t at, std::size_t num_bytes) {
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

  static void remember(const WordKey& key, std::size_t first, const std::vector<std::int32_t>& ids,
                       Entry& entry) {
    const std::size_t num_ids = ids.size() - first;
    if (num_ids > kMaxWordIds) return;
    entry.key = key;
    entry.num_ids = static_cast<std::int32_t>(num_ids);
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), entry.ids.begin());
  }

  std::vector<Entry> entries_;
};

}  // namespace tessera
