// AddedTokens: strings that are one token wherever they stand in a text, before any other rule is applied.
//
// Part of HfTokenizer and WordpieceTokenizer. GPT-NeoX has the runs of 2 to 24 spaces so, BERT "[MASK]".
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

class AddedTokens {
 public:
  AddedTokens();

  // An empty string is never found.
  void add(std::string_view content, std::int32_t id);

  struct Match {
    std::size_t begin = 0;  // text.size(): there is none
    std::size_t end = 0;
    std::int32_t id = kNone;
  };
  // The leftmost occurrence that starts at or after `from`, and of those that start there the longest.
  Match find(std::string_view text, std::size_t from) const;

  // Calls on_text(part) for what lies between the occurrences, and on_token(id) for each of them, in order.
  template <class OnText, class OnToken>
  void split(std::string_view text, OnText&& on_text, OnToken&& on_token) const {
    for (std::size_t at = 0; at < text.size();) {
      const Match match = find(text, at);
      if (match.begin > at) on_text(text.substr(at, match.begin - at));
      if (match.id == kNone) return;
      on_token(match.id);
      at = match.end;
    }
  }

 private:
  static constexpr std::int32_t kNone = -1;

  struct Node {  // of a trie over bytes
    std::int32_t id = kNone;
    std::vector<std::pair<unsigned char, std::uint32_t>> children;
  };
  Match longest_at(std::string_view text, std::size_t at) const;

  std::vector<Node> nodes_;
  // Pairs of bytes with which an occurrence may begin: most places of a text are passed by one look-up.
  std::bitset<65536> starts_;
};

}  // namespace tessera
