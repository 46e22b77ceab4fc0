// How a matrix product is cut: into blocks, whose part of B is packed, and blocks into tiles, which threads
// compute. Used by gemm and its schedule. All of it is a function of the shape alone; the cut of K, on
// which bits depend, of K alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/backend/cpu/gemm.h"
#include "tessera/backend/cpu/gemm_kernel.h"

namespace tessera::cpu {

// The loops, from the outside: blocks of N, M and K; then output tiles, the tasks of the threads; then panels
// of B; then the micro-kernel's rows. While a tile is computed, its rows of A (at most 64 x 1024 floats,
// 256 KB) stay in the L2 cache and panels of B (48 x 1024, 192 KB) pass through it, each used for all of
// those rows. Twice as many rows would halve B's way from the L3 cache, but leave no room in an L2 cache that
// another program shares.
inline constexpr std::int64_t kMaxBlockM = 3072;
inline constexpr std::int64_t kMaxBlockN = 1536;
inline constexpr std::int64_t kMaxBlockK = 1024;
inline constexpr std::int64_t kMaxTileRows = 64;
inline constexpr std::int64_t kMaxTilePanels = 32;
// The first panel of a tile waits for A, so wide tiles are faster, but threads wait for the last tiles of a
// product: one of fewer wide tiles than these has twice as many of half the width.
inline constexpr std::int64_t kLeastWideTiles = 16;
// What one task packs of B: panels side by side, so that runs of several cache lines are read from a matrix
// in which they are contiguous.
inline constexpr std::int64_t kPackedPanels = 4;
// Products of so few rows, which generation has, are over when B has been read once: there a task packs each
// panel of B into its own corner of the cache and uses it at once, instead of all threads packing all of it
// into memory first. The sums are the same.
inline constexpr std::int64_t kFewRows = kTileRows;

template <class T>
constexpr std::int64_t kPanelColumns = kMaxTileVectors* kLanes<T>;

// The size of pieces of at most `most`, as even as `multiple` allows.
inline std::int64_t even_piece(std::int64_t total, std::int64_t most, std::int64_t multiple) {
  const std::int64_t num_pieces = std::max<std::int64_t>(1, ceil_div(total, most));
  return std::max(multiple, round_up(ceil_div(total, num_pieces), multiple));
}

// One pass of the outer loops: where it begins and how much of the shape it covers.
struct Block {
  std::int64_t m0, m, n0, n, k0, k;
  bool first_k, last_k;
  bool new_b;  // whether it packs its operand; if not, the block before left it packed
  int b_slot;  // where the packed operand lies: blocks that follow each other take turns
  Panels panels;
};

// A task: rows [row, row + rows) and panels [first_panel, last_panel) of a block; at an edge maybe none.
struct Tile {
  std::int64_t row, rows, first_panel, last_panel;
  bool empty() const { return rows <= 0 || first_panel >= last_panel; }
};

template <class T>
struct Blocking {
  GemmShape shape;
  std::int64_t m, n, k;  // of a block
  std::int64_t num_m, num_n, num_k;
  std::int64_t tile_rows, tile_panels;
  bool few_rows;

  explicit Blocking(const GemmShape& product)
      : shape(product),
        m(even_piece(shape.m, kMaxBlockM, kTileRows)),
        n(even_piece(shape.n, kMaxBlockN, shape.n > kMaxBlockN ? kPanelColumns<T> : kLanes<T>)),
        k(even_piece(shape.k, kMaxBlockK, 1)),
        num_m(ceil_div(shape.m, m)),
        num_n(ceil_div(shape.n, n)),
        num_k(std::max<std::int64_t>(1, ceil_div(shape.k, k))),
        tile_rows(even_piece(m, kMaxTileRows, kTileRows)),
        tile_panels(kMaxTilePanels),
        few_rows(shape.m <= kFewRows) {
    if (few_rows) {
      tile_panels = 1;
    } else if (num_m * num_n * num_tiles() < kLeastWideTiles) {
      tile_panels = kMaxTilePanels / 2;
    }
  }

  std::int64_t num_blocks() const { return num_m * num_n * num_k; }
  std::int64_t tile_columns() const { return tile_panels * kPanelColumns<T>; }
  // Of a whole block; one at an edge has as many tasks, some of them empty.
  std::int64_t tiles_down() const { return ceil_div(m, tile_rows); }
  std::int64_t num_tiles() const {
    return tiles_down() * ceil_div(Panels{ceil_div(n, kLanes<T>)}.count(), tile_panels);
  }
  // Two where B is packed more than once, so that one is packed while the other is read.
  int b_slots() const { return num_n * num_k > 1 ? 2 : 1; }

  Block block(std::int64_t index) const {
    const std::int64_t in_k = index % num_k, in_m = index / num_k % num_m, in_n = index / num_k / num_m;
    Block block{};
    block.m0 = in_m * m, block.m = std::min(m, shape.m - block.m0);
    block.n0 = in_n * n, block.n = std::min(n, shape.n - block.n0);
    block.k0 = in_k * k, block.k = std::min(k, shape.k - block.k0);
    block.first_k = in_k == 0, block.last_k = in_k + 1 == num_k;
    block.new_b = num_k > 1 || in_m == 0;
    block.b_slot = static_cast<int>((num_k > 1 ? index : in_n) % b_slots());
    block.panels = {ceil_div(block.n, kLanes<T>)};
    return block;
  }

  Tile tile(const Block& of, std::int64_t index) const {
    Tile tile{};
    tile.row = index % tiles_down() * tile_rows;  // neighbours in time share panels of B
    tile.rows = std::min(tile_rows, of.m - tile.row);
    tile.first_panel = index / tiles_down() * tile_panels;
    tile.last_panel = std::min(tile.first_panel + tile_panels, of.panels.count());
    return tile;
  }
};

}  // namespace tessera::cpu
