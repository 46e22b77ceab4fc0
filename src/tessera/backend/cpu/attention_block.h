// What attention's forward and backward share: how queries and keys are cut into blocks and tasks, and
// products of cached blocks that skip what the causal mask removes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/backend/cpu/attention.h"
#include "tessera/backend/cpu/gemm_kernel.h"

namespace tessera::cpu {

// A block of scores is 36 KB of float: with its operands it stays in the L2 cache, and it is whole tiles of
// three vectors for every vector width.
inline constexpr std::int64_t kQueryBlock = 96;
inline constexpr std::int64_t kKeyBlock = 96;

// Whole blocks are whole tiles of either shape.
static_assert(kQueryBlock % kTileRows == 0 && kQueryBlock % kWideTileRows == 0);
static_assert(kKeyBlock % kTileRows == 0 && kKeyBlock % kWideTileRows == 0);

// Blocks are cut into chunks, one task each, so that few heads still keep many threads busy.
inline std::int64_t attention_num_chunks(const AttentionShape& shape, std::int64_t num_blocks) {
  constexpr std::int64_t kEnoughTasks = 16;
  const std::int64_t heads = std::max<std::int64_t>(1, shape.batch * shape.num_kv_heads);
  return std::clamp<std::int64_t>(ceil_div(kEnoughTasks, heads), 1, std::max<std::int64_t>(1, num_blocks));
}

template <class T>
std::int64_t padded_head_dim(const AttentionShape& shape) {
  return round_up(shape.head_dim, kLanes<T>);
}

// Which part of a block product the causal mask leaves. Query row q of a block sees key column c if
// c <= q + diagonal.
enum class CausalPart {
  all,
  columns_up_to_row,  // C is [queries, keys]
  k_up_to_row,        // A is [queries, keys], as rows and k
  k_from_row,         // A is [keys, queries], as rows and k
};

template <class T>
struct BlockProduct {
  // Computed in whole tiles, and columns in whole vectors: buffers hold whole blocks, of which the rows
  // behind these take anything.
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  TileOperands<T> operands;  // of the whole block
  bool b_in_panels = false;  // as pack_keys leaves it; else rows of ldb elements
  CausalPart part = CausalPart::all;
  std::int64_t diagonal = 0;
};

// The part of `block` at row r and column panel [column, column + num_vectors * lanes).
template <RowsOfA kRows, class T>
TileOperands<T> block_tile(const BlockProduct<T>& block, std::int64_t r, int tile_rows, std::int64_t column,
                           int num_vectors) {
  const std::int64_t first_visible = r - block.diagonal, end_visible = r + tile_rows + block.diagonal;
  const std::int64_t k = block.operands.k;
  const std::int64_t k_begin =
      block.part == CausalPart::k_from_row ? std::clamp<std::int64_t>(first_visible, 0, k) : 0;
  const std::int64_t k_end =
      block.part == CausalPart::k_up_to_row ? std::clamp<std::int64_t>(end_visible, 0, k) : k;
  TileOperands<T> tile = block.operands;
  tile.k = k_end - k_begin;
  tile.a += kRows == RowsOfA::adjacent ? r + k_begin * tile.a_stride : r * tile.a_stride + k_begin;
  if (block.b_in_panels) tile.ldb = num_vectors * kLanes<T>;
  tile.b += (block.b_in_panels ? column * k : column) + k_begin * tile.ldb;
  tile.c += r * tile.ldc + column;
  if (tile.addend != nullptr) tile.addend += r * tile.ld_addend + column;
  return tile;
}

template <RowsOfA kRows, class T>
void multiply_block(const BlockProduct<T>& block) {
  const std::int64_t num_vectors = ceil_div(block.columns, kLanes<T>);
  if (kNumVectorRegisters == 32 && num_vectors % kWideTileVectors == 0 && !block.b_in_panels) {
    for (std::int64_t v = 0; v < num_vectors; v += kWideTileVectors) {
      for (std::int64_t r = 0; r < block.rows; r += kWideTileRows) {
        multiply_tile<kWideTileRows, kWideTileVectors, kRows>(
            block_tile<kRows>(block, r, kWideTileRows, v * kLanes<T>, kWideTileVectors));
      }
    }
    return;
  }
  const Panels panels{num_vectors};
  for (std::int64_t p = 0; p < panels.count(); ++p) {
    const std::int64_t column = panels.begin(p) * kLanes<T>;
    for (std::int64_t r = 0; r < block.rows; r += kTileRows) {
      const bool hidden = column > r + kTileRows - 1 + block.diagonal;
      if (block.part == CausalPart::columns_up_to_row && hidden) continue;
      multiply_tile<kRows>(panels.width(p), block_tile<kRows>(block, r, kTileRows, column, panels.width(p)));
    }
  }
}

// Columns of a row of scores to work on when `num_visible` keys are seen, of a buffer's `width`: all that a
// tile of neighbouring rows reads, in whole vectors.
template <class T>
std::int64_t columns_at_work(std::int64_t num_visible, std::int64_t width) {
  const std::int64_t columns = std::max<std::int64_t>(0, num_visible + kTileRows - 1);
  return std::min(width, round_up(columns, kLanes<T>));
}

}  // namespace tessera::cpu
