// The order in which the thread blocks of causal_attention.cu take tiles of queries: those of a few heads,
// whose keys and values fit into the L2 cache together, from the longest walk over keys to the shortest, so
// that all end at about the same time.
//
// Constexpr functions, which kernels may call.
#pragma once

#include <cstdint>

namespace tessera::cuda {

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
