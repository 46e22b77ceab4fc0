#include "tessera/train/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

// Edits that turn a into b: insert, delete, replace, or swap two neighbours (the commonest typing
// slip, which plain Levenshtein counts as two).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view last_word(std::string_view dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  // Of a short word another first letter makes another one: gpu is no slip of cpu.
  const auto tolerated = [](std::string_view word, std::string_view meant) {
    const bool other_word = word.size() <= 3 && !word.empty() && !meant.starts_with(word[0]);
    return other_word ? 0 : std::max<std::size_t>(1, word.size() / 3);
  };
  std::string nearest;
  std::size_t fewest = name.size() + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t whole = edit_distance(name, candidate);
    // A right word in the wrong section costs one edit more than the same word in the right one.
    const std::size_t word = edit_distance(last_word(name), last_word(candidate)) + 1;
    const bool whole_is_near = whole <= tolerated(name, candidate);
    const bool word_is_near = word <= tolerated(last_word(name), last_word(candidate)) + 1;
    const std::size_t edits = std::min(whole_is_near ? whole : fewest, word_is_near ? word : fewest);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = candidate;
  }
  return nearest;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace tessera
