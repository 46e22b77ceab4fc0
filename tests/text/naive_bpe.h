// Byte-level BPE as one would explain it: the reference for the fast merging, and the fast training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/text/bpe_vocabulary.h"
#include "tessera/text/byte_alphabet.h"
#include "tessera/text/pretokenize.h"

namespace tessera {

// Again and again: of all neighbours the pair that stands first in the list, of its places the leftmost.
inline void naive_merge(const std::vector<BpeMerge>& merges, std::vector<std::int32_t>& ids) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> ranks;
  for (std::size_t rank = 0; rank < merges.size(); ++rank)
    ranks[{merges[rank].left, merges[rank].right}] = rank;
  while (true) {
    std::size_t best_rank = merges.size();
    std::size_t best_at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found != ranks.end() && found->second < best_rank)
        std::tie(best_rank, best_at) = {found->second, i};
    }
    if (best_rank == merges.size()) return;
    ids[best_at] = merges[best_rank].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

inline std::vector<std::int32_t> naive_encode(const BpeVocabulary& vocabulary, std::string_view text) {
  std::vector<std::int32_t> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = piece_end(text, at);
    std::vector<std::int32_t> ids;
    for (const char byte : text.substr(at, end - at)) {
      const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), std::string(1, byte));
      ids.push_back(static_cast<std::int32_t>(found - vocabulary.tokens.begin()));
    }
    naive_merge(vocabulary.merges, ids);
    all.insert(all.end(), ids.begin(), ids.end());
    at = end;
  }
  return all;
}

// Counts every pair of every word anew for each merge.
inline BpeVocabulary naive_train(std::string_view text, int vocab_size) {
  BpeVocabulary vocabulary;
  for (const unsigned char byte : bytes_in_alphabet_order())
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<std::vector<std::int32_t>> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = piece_end(text, at);
    words.push_back(naive_encode(vocabulary, text.substr(at, end - at)));
    at = end;
  }
  while (static_cast<int>(vocabulary.tokens.size()) < vocab_size) {
    std::map<std::pair<std::int32_t, std::int32_t>, int> counts;
    for (const auto& word : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    }
    auto best = counts.begin();  // in the order of pairs, so the first of the highest count wins
    for (auto it = counts.begin(); it != counts.end(); ++it) {
      if (it->second > best->second) best = it;
    }
    const auto [left, right] = best->first;
    const std::string bytes = vocabulary.tokens[static_cast<std::size_t>(left)] +
                              vocabulary.tokens[static_cast<std::size_t>(right)];
    vocabulary.merges.push_back({left, right, static_cast<std::int32_t>(vocabulary.tokens.size())});
    vocabulary.tokens.push_back(bytes);
    for (auto& word : words) naive_merge({vocabulary.merges.back()}, word);
  }
  return vocabulary;
}

}  // namespace tessera
