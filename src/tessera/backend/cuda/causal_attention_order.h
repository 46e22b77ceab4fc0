// How causal_attention.cu cuts a head's queries into tiles, and the order in which its thread blocks take
// them: those of a few heads, whose keys and values fit into the L2 cache together, from the longest walk
// over keys to the shortest, so that all end at about the same time.
//
// Constexpr functions, which kernels may call.
#pragma once

#include <cstdint>

namespace tessera::cuda {

// Tiles of kGroups groups of kRows queries, which walk over blocks of kKeys keys. If there are no queries for
// some groups, then for the first of the first tile, whose walk is the shortest: groups of the last tile
// would have the longest walks for nothing.
template <int kGroups, int kRows, int kKeys>
struct QueryTiles {
  int seq, count, missing_rows;

  constexpr explicit QueryTiles(int seq_len)
      : seq(seq_len),
        count((seq + kGroups * kRows - 1) / (kGroups * kRows)),
        missing_rows((count * kGroups * kRows - seq) / kRows * kRows) {}

  // Of the tile's group; negative where it has no queries.
  constexpr int first_row(int tile, int group) const {
    return (tile * kGroups + group) * kRows - missing_rows;
  }
  // Blocks of keys that some query of the tile's group sees. Its diagonal lies in the last one.
  constexpr int key_blocks(int tile, int group) const {
    const int end = first_row(tile, group) + kRows;
    return end <= 0 ? 0 : ((end < seq ? end : seq) + kKeys - 1) / kKeys;
  }
};

struct QueryTile {
  int head = 0;  // of all heads of all sequences
  int tile = 0;
};

struct QueryTileOrder {
  int heads = 0, tiles = 0;        // tiles of each head
  std::int64_t bytes_of_head = 0;  // its keys and values

  static constexpr std::int64_t kL2Bytes = std::int64_t{32} << 20;  // of 50 MB

  constexpr int items() const { return heads * tiles; }
  constexpr QueryTile item(int number) const {
    const std::int64_t fitting = kL2Bytes / bytes_of_head;
    const int at_once = fitting >= heads ? heads : fitting > 1 ? static_cast<int>(fitting) : 1;
    const int first = number / (at_once * tiles) * at_once;
    const int some = heads - first < at_once ? heads - first : at_once;
    const int rest = number - first * tiles;
    return {.head = first + rest % some, .tile = tiles - 1 - rest / some};
  }
};

}  // namespace tessera::cuda
