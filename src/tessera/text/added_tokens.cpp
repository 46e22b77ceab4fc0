#include "tessera/text/added_tokens.h"

#include <algorithm>

namespace tessera {
namespace {

std::size_t pair_of(char first, char second) {
  return static_cast<std::size_t>(static_cast<unsigned char>(first)) << 8 |
         static_cast<unsigned char>(second);
}

}  // namespace

AddedTokens::AddedTokens() : nodes_(1) {}

void AddedTokens::add(std::string_view content, std::int32_t id) {
  if (content.empty()) return;
  if (content.size() > 1) {
    starts_.set(pair_of(content[0], content[1]));
  } else {
    for (int second = 0; second < 256; ++second) starts_.set(pair_of(content[0], static_cast<char>(second)));
  }
  std::uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    const auto& children = nodes_[node].children;
    const auto found =
        std::find_if(children.begin(), children.end(), [&](auto& child) { return child.first == byte; });
    if (found != children.end()) {
      node = found->second;
      continue;
    }
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    nodes_[node].children.emplace_back(byte, fresh);
    nodes_.emplace_back();
    node = fresh;
  }
  nodes_[node].id = id;
}

AddedTokens::Match AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  Match match{text.size(), text.size(), kNone};
  std::uint32_t node = 0;
  for (std::size_t end = at; end < text.size(); ++end) {
    const auto& children = nodes_[node].children;
    const auto byte = static_cast<unsigned char>(text[end]);
    const auto found =
        std::find_if(children.begin(), children.end(), [&](auto& child) { return child.first == byte; });
    if (found == children.end()) break;
    node = found->second;
    if (nodes_[node].id != kNone) match = {at, end + 1, nodes_[node].id};
  }
  return match;
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from) const {
  if (nodes_.size() == 1) return {text.size(), text.size(), kNone};
  for (std::size_t at = from; at < text.size(); ++at) {
    if (at + 1 < text.size() && !starts_.test(pair_of(text[at], text[at + 1]))) continue;
    if (const Match match = longest_at(text, at); match.id != kNone) return match;
  }
  return {text.size(), text.size(), kNone};
}

}  // namespace tessera
