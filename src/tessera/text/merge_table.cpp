#include "tessera/text/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <queue>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Up to here a scan of all pairs for each merge, quadratic as it is, beats the heap: words are short.
constexpr std::size_t kShortPiece = 48;

constexpr std::uint64_t kHashFactor = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio: Fibonacci hashing

}  // namespace

MergeTable::MergeTable(std::span<const BpeMerge> merges, Ranks ranks) {
  const std::size_t num_slots = std::bit_ceil(std::max<std::size_t>(2 * merges.size(), 16));
  slots_.resize(num_slots);
  hash_shift_ = 64 - std::countr_zero(num_slots);
  for (const BpeMerge& merge : merges) {
    const bool alike = ranks == Ranks::by_result && !results_.empty() && results_.back() == merge.result;
    if (!alike) results_.push_back(merge.result);
    Slot& slot = slots_[slot_of(merge.left, merge.right)];
    if (slot.left == kNoId) slot = {merge.left, merge.right, static_cast<Rank>(results_.size() - 1)};
  }
}

// The slot that holds the pair, or the empty one where it would be.
std::size_t MergeTable::slot_of(std::int32_t left, std::int32_t right) const {
  const auto pair = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  std::size_t at = (pair * kHashFactor) >> hash_shift_;
  while (slots_[at].left != kNoId && (slots_[at].left != left || slots_[at].right != right)) {
    at = (at + 1) & (slots_.size() - 1);
  }
  return at;
}

std::size_t MergeTable::merge(std::span<std::int32_t> ids) const {
  return ids.size() <= kShortPiece ? merge_short(ids) : merge_long(ids);
}

std::size_t MergeTable::merge_short(std::span<std::int32_t> ids) const {
  std::array<Rank, kShortPiece> ranks;  // ranks[i]: of the pair (ids[i], ids[i + 1])
  std::size_t size = ids.size();
  for (std::size_t i = 0; i + 1 < size; ++i) ranks[i] = rank_of(ids[i], ids[i + 1]);
  while (size > 1) {
    const auto ranks_end = ranks.begin() + static_cast<std::ptrdiff_t>(size - 1);
    const auto best_rank = std::min_element(ranks.begin(), ranks_end);
    if (*best_rank == kNoRank) break;
    const auto at = static_cast<std::size_t>(best_rank - ranks.begin());
    ids[at] = results_[*best_rank];
    std::copy(ids.begin() + at + 2, ids.begin() + size, ids.begin() + at + 1);
    std::copy(best_rank + 1, ranks_end, best_rank);
    --size;
    if (at > 0) ranks[at - 1] = rank_of(ids[at - 1], ids[at]);
    if (at + 1 < size) ranks[at] = rank_of(ids[at], ids[at + 1]);
  }
  return size;
}

// A linked list of ids and a heap of the pairs that may merge: n log n, for a megabyte without a space.
std::size_t MergeTable::merge_long(std::span<std::int32_t> ids) const {
  TS_CHECK(ids.size() < UINT32_MAX, "a piece of text without a break has {} bytes, at most {} can be encoded",
           ids.size(), UINT32_MAX - 1);
  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
    Rank rank;  // of the pair with next; kNoRank also for what was merged away
  };
  const auto size = static_cast<std::uint32_t>(ids.size());
  std::vector<Link> links(size);
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> candidates;  // rank, place

  const auto rank_pair_at = [&](std::uint32_t at) {
    const std::uint32_t next = links[at].next;
    links[at].rank = next < size ? rank_of(ids[at], ids[next]) : kNoRank;
    if (links[at].rank != kNoRank) candidates.push(static_cast<std::uint64_t>(links[at].rank) << 32 | at);
  };
  for (std::uint32_t i = 0; i < size; ++i) links[i] = {i - 1, i + 1, kNoRank};
  for (std::uint32_t i = 0; i < size; ++i) rank_pair_at(i);

  while (!candidates.empty()) {
    const auto at = static_cast<std::uint32_t>(candidates.top());
    const auto rank = static_cast<Rank>(candidates.top() >> 32);
    candidates.pop();
    if (links[at].rank != rank) continue;  // one of the two was merged since
    ids[at] = results_[rank];
    const std::uint32_t removed = links[at].next;
    links[removed].rank = kNoRank;
    links[at].next = links[removed].next;
    if (links[at].next < size) links[links[at].next].previous = at;
    rank_pair_at(at);
    if (at > 0) rank_pair_at(links[at].previous);
  }

  std::size_t num_left = 0;
  for (std::uint32_t at = 0; at < size; at = links[at].next) ids[num_left++] = ids[at];
  return num_left;
}

}  // namespace tessera
