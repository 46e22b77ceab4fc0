// The micro-kernel under every matrix product and attention block: a tile of kTileRows rows by one to
// three vectors of C, or of kWideTileRows by kWideTileVectors, stays in registers while K runs by.
//
// A call makes each element of C one chain of multiply-adds over k, in order, whatever the tile it falls
// into: how a product is cut into tiles cannot change its bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/backend/cpu/simd.h"

namespace tessera::cpu {

// With three vectors a row, the sums take 24 of AVX-512's 32 registers and 12 of 16 elsewhere; the rest
// hold one row of B and a broadcast element of A. The loads per FMA stay below what the load ports give.
inline constexpr int kTileRows = kNumVectorRegisters == 32 ? 8 : 4;
inline constexpr int kMaxTileVectors = 3;
// The same number of sums in another shape, for rows of four vectors, where there are registers for it.
inline constexpr int kWideTileRows = 6;
inline constexpr int kWideTileVectors = 4;

// How the elements of A lie: element (row, i) is a[row + i * stride] or a[row * stride + i].
enum class RowsOfA { adjacent, strided };

// The operands of one tile: C = alpha * A[rows, k] * B[k, vectors] + addend. The addend is a matrix
// of C's shape (C itself to accumulate), one row of it with ld 0 (a bias), or absent.
template <class T>
struct TileOperands {
  std::int64_t k = 0;
  const T* a = nullptr;
  std::int64_t a_stride = 0;
  const T* b = nullptr;
  std::int64_t ldb = 0;
  T* c = nullptr;
  std::int64_t ldc = 0;
  const T* addend = nullptr;
  std::int64_t ld_addend = 0;
  T alpha = 1;
  // While k runs, `next + i * next_step` is fetched into the L2 cache: the part of the next panel of B that
  // falls to this tile. Left to the hardware, the first tile of a panel waits for the L3 cache.
  const T* next = nullptr;
  std::int64_t next_step = 0;
};

// C = alpha * sum + addend. What the tile says is read once: a store could change it, and asked for every
// vector whether there is an addend, the short products of attention would spend a tenth of their time here.
template <int Rows, int NumVectors, class T, class V>
[[gnu::always_inline]] inline void store_tile(const TileOperands<T>& tile, const V (&sum)[Rows][NumVectors]) {
  constexpr int lanes = kLanes<T>;
  const T alpha = tile.alpha;
  const std::int64_t ldc = tile.ldc, ld_addend = tile.ld_addend;
  const T* addend = tile.addend;
  T* c = tile.c;
  if (addend == nullptr) {
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r, c += ldc) {
#pragma GCC unroll 4
      for (int v = 0; v < NumVectors; ++v) store(c + v * lanes, alpha * sum[r][v]);
    }
    return;
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r, c += ldc, addend += ld_addend) {
#pragma GCC unroll 4
    for (int v = 0; v < NumVectors; ++v) {
      V before;
      load(before, addend + v * lanes);
      store(c + v * lanes, alpha * sum[r][v] + before);
    }
  }
}

template <int Rows, int NumVectors, RowsOfA kRows, class T>
[[gnu::noinline]] void multiply_tile(const TileOperands<T>& tile) {
  using V = typename Simd<T>::Vector;
  constexpr int lanes = kLanes<T>;
  const T* const a = tile.a;
  const T* const b = tile.b;
  // Fetching an address that is not mapped costs a page walk each time: without a next panel, refetch this
  // one.
  const T* const next = tile.next != nullptr ? tile.next : b;
  const std::int64_t next_step = tile.next_step;
  const std::int64_t k = tile.k, a_stride = tile.a_stride, ldb = tile.ldb;
  V sum[Rows][NumVectors] = {};
  // C is fetched row by row, in as many parts of k: fetched all at once, it seems to take the core's line
  // fill buffers from B. A short product works on blocks in cache and leaves rows out.
  constexpr std::int64_t kLeastPart = 32;
  const std::int64_t part = std::max(ceil_div(k, Rows), kLeastPart);
  const T* c_row = tile.c;
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < k; c_row += tile.ldc) {
#pragma GCC unroll 4
    for (int v = 0; v < NumVectors; ++v) __builtin_prefetch(c_row + v * lanes, 1);
    const std::int64_t end = std::min(k, i + part);
    // Unrolled for the sake of the FMA ports, which otherwise lose a cycle in 24 to the loop's own additions.
#pragma GCC unroll 8
    for (; i < end; ++i) {
      __builtin_prefetch(next + i * next_step, 0, 2);
      V b_row[NumVectors];
#pragma GCC unroll 4
      for (int v = 0; v < NumVectors; ++v) load(b_row[v], b + i * ldb + v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const T element = kRows == RowsOfA::adjacent ? a[i * a_stride + r] : a[r * a_stride + i];
#pragma GCC unroll 4
        for (int v = 0; v < NumVectors; ++v) sum[r][v] += element * b_row[v];
      }
    }
  }
  store_tile(tile, sum);
}

// The kernel for tiles of kTileRows.
template <RowsOfA kRows, class T>
void multiply_tile(int num_vectors, const TileOperands<T>& tile) {
  switch (num_vectors) {
    case 1:
      return multiply_tile<kTileRows, 1, kRows>(tile);
    case 2:
      return multiply_tile<kTileRows, 2, kRows>(tile);
    default:
      return multiply_tile<kTileRows, 3, kRows>(tile);
  }
}

// Cuts a row of vectors into panels of two or three, as even as possible (16 = 3+3+3+3+2+2), since a tile
// of one vector runs at half speed.
struct Panels {
  std::int64_t num_vectors = 0;

  std::int64_t count() const { return ceil_div(num_vectors, kMaxTileVectors); }
  std::int64_t begin(std::int64_t panel) const {
    const std::int64_t wider = num_vectors % count();
    return panel * (num_vectors / count()) + (panel < wider ? panel : wider);
  }
  int width(std::int64_t panel) const { return static_cast<int>(begin(panel + 1) - begin(panel)); }
};

}  // namespace tessera::cpu
