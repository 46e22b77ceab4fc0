// Who computes what, and when, in ordered_attention_grad.cu: which block of keys meets which tile of queries,
// and whose turn it is to add to the tile's gradient.
//
// A pass is one block of keys of one head against all queries that see it. With a causal mask block n of N
// meets the tiles from its own on, so passes differ in length; an item is two of them that together are as
// long as any other: block N-1-i of a head and then block i of the next head. Thread blocks take items in the
// order of their numbers. The last heads' passes are items of their own, the longest first, so that the
// thread blocks end at about the same time.
//
// A tile's gradient is a sum over blocks of keys, added one after the other in a fixed order, so that its
// bits never change. The order is that in which they come if all items of a pair of heads begin at once: in
// the first pass the tiles are walked upwards, and a tile is met first by the block on the diagonal, last by
// block 0; in the second, which the items begin one after the other, they are walked downwards and block 0
// comes first, and so they are in items of one pass. So nobody waits as long as nobody is late. And as every
// turn comes behind those of earlier items only, which some thread block has taken before, all of them come,
// however few thread blocks run at once. (A head's order depends on its number: the same sequence can have
// other last bits at another place of the batch.)
//
// Constexpr functions, which kernels may call.
#pragma once

namespace tessera::cuda {

inline constexpr int kBlockKeys = 128;

// Items of one pass: a few for every thread block. More would end still more evenly, but of more heads at
// once than the L2 cache holds.
inline constexpr int kSinglePasses = 396;

// Queries of a tile: as many as the registers hold scores for.
template <int kDims>
inline constexpr int kTileQueries = kDims == 64 ? 128 : 64;

struct Pass {
  int head = 0;   // of all heads of all sequences
  int block = 0;  // of keys
  int first_tile = 0, num_tiles = 0;
  bool upwards = true;

  constexpr int tile(int step) const {
    return upwards ? first_tile + step : first_tile + num_tiles - 1 - step;
  }
};

template <int kDims>
struct GradOrder {
  int heads = 0;  // of all sequences
  int seq = 0;

  static constexpr int kQueries = kTileQueries<kDims>;
  constexpr int blocks() const { return (seq + kBlockKeys - 1) / kBlockKeys; }
  constexpr int tiles() const { return (seq + kQueries - 1) / kQueries; }
  constexpr int padded_seq() const { return tiles() * kQueries; }
  // Heads whose passes are items of their own; an even number is left.
  constexpr int single_heads() const {
    const int wanted = (kSinglePasses + blocks() - 1) / blocks(), some = wanted < heads ? wanted : heads;
    return some + (heads - some) % 2;
  }
  constexpr int paired_items() const { return (heads - single_heads()) / 2 * blocks(); }
  constexpr int items() const { return paired_items() + single_heads() * blocks(); }

  // Of the two passes of an item; without tiles if there is no second one.
  constexpr Pass pass(int item, int which) const {
    const int pair = item / blocks(), i = item % blocks(), single = item - paired_items();
    Pass made;
    if (single < 0) {
      made = {.head = 2 * pair + which, .block = which == 0 ? blocks() - 1 - i : i, .upwards = which == 0};
    } else {
      made = {.head = heads - single_heads() + single % single_heads(),
              .block = single / single_heads(),
              .upwards = false};
    }
    made.first_tile = made.block * kBlockKeys / kQueries;
    made.num_tiles = single < 0 || which == 0 ? tiles() - made.first_tile : 0;
    return made;
  }
  // How many blocks add to the tile before this pass does.
  constexpr int turn(const Pass& pass, int tile) const {
    const int diagonal = (tile * kQueries + kQueries - 1) / kBlockKeys;
    return pass.upwards ? diagonal - pass.block : pass.block;
  }
};

}  // namespace tessera::cuda
