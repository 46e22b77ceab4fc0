// MergeTable: the merges of a BPE as a hash table, and the merging of one piece of text.
//
// Part of BpeTokenizer and SentencepieceTokenizer. Immutable once built, so any number of threads may merge
// at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/text/bpe_vocabulary.h"

namespace tessera {

class MergeTable {
 public:
  // By place: every merge of the list comes before the next. By result: merges in a row that give the same id
  // are alike, as SentencePiece has it.
  enum class Ranks { by_place, by_result };
  explicit MergeTable(std::span<const BpeMerge> merges, Ranks ranks = Ranks::by_place);

  // Merges the ids of one piece in place, again and again the earliest merge of the list that applies and of
  // its places the leftmost; returns how many ids are left, at the front of `ids`.
  std::size_t merge(std::span<std::int32_t> ids) const;

 private:
  using Rank = std::uint32_t;  // the lower the earlier

  struct Slot {
    std::int32_t left = kNoId;  // kNoId: empty
    std::int32_t right = kNoId;
    Rank rank = kNoRank;
  };

  static constexpr std::int32_t kNoId = -1;
  static constexpr Rank kNoRank = UINT32_MAX;

  std::size_t slot_of(std::int32_t left, std::int32_t right) const;
  Rank rank_of(std::int32_t left, std::int32_t right) const { return slots_[slot_of(left, right)].rank; }
  std::size_t merge_short(std::span<std::int32_t> ids) const;
  std::size_t merge_long(std::span<std::int32_t> ids) const;

  std::vector<Slot> slots_;  // a power of two of them, at most half full; linear probing
  int hash_shift_ = 0;
  std::vector<std::int32_t> results_;  // by rank
};

}  // namespace tessera
