#include "tessera/backend/cpu/gemm.h"

#include <algorithm>
#include <type_traits>

#include "tessera/backend/cpu/gemm_kernel.h"
#include "tessera/backend/cpu/gemm_pack.h"
#include "tessera/backend/cpu/workspace.h"
#include "tessera/base/error.h"

namespace tessera::cpu {
namespace {

// The loops, from the outside: blocks of N, M and K, whose operands are packed once by all threads
// together; then output tiles, the tasks of the threads; then panels of B; then the micro-kernel's rows.
// While a tile is computed, its rows of A (at most 128 x 768 floats, 400 KB) stay in the L2 cache and
// panels of B (48 x 768, 150 KB) pass through it, each used for all of those rows.
constexpr std::int64_t kMaxBlockK = 768;
constexpr std::int64_t kMaxBlockWide = 4096;
constexpr std::int64_t kMaxTileRows = 128;
constexpr std::int64_t kMaxTilePanels = 8;
// What one task packs: rows of A and panels of B side by side, so that runs of several cache lines are read
// from a matrix in which they are contiguous.
constexpr std::int64_t kPackedRows = 64;
constexpr std::int64_t kPackedPanels = 4;
// Products of so few rows, which generation has, are over when B has been read once: there a task packs each
// panel of B into its own corner of the cache and uses it at once, instead of all threads packing all of it
// into memory first. The sums are the same.
constexpr std::int64_t kFewRows = kTileRows;
// Packed blocks up to this size stay in the caches between packing and use.
constexpr std::int64_t kCachedBytes = 2 << 20;

template <class T>
constexpr std::int64_t kPanelColumns = kMaxTileVectors* kLanes<T>;

// The size of pieces of at most `most`, as even as `multiple` allows.
std::int64_t even_piece(std::int64_t total, std::int64_t most, std::int64_t multiple) {
  const std::int64_t num_pieces = std::max<std::int64_t>(1, ceil_div(total, most));
  return std::max(multiple, round_up(ceil_div(total, num_pieces), multiple));
}

// A function of the shape alone; the cut of K, on which bits depend, of K alone.
template <class T>
struct Blocking {
  std::int64_t m, n, k;  // of a block
  std::int64_t tile_rows, tile_panels;
  bool few_rows;

  explicit Blocking(const GemmShape& shape)
      : m(even_piece(shape.m, kMaxBlockWide, kTileRows)),
        n(even_piece(shape.n, kMaxBlockWide, kLanes<T>)),
        k(even_piece(shape.k, kMaxBlockK, 1)),
        tile_rows(even_piece(m, kMaxTileRows, kTileRows)),
        tile_panels(shape.m <= kFewRows ? 1 : kMaxTilePanels),
        few_rows(shape.m <= kFewRows) {}

  std::int64_t tile_columns() const { return tile_panels * kPanelColumns<T>; }
  std::int64_t max_tiles() const {
    return ceil_div(m, tile_rows) * ceil_div(Panels{n / kLanes<T>}.count(), tile_panels);
  }
};

template <class T>
struct Scratch {
  T* a;     // one block, in panels of kTileRows rows
  T* b;     // one block, in panels of one to three vectors; with few rows, a panel per thread
  T* bias;  // of one block's columns
  T* sums;  // for a Bf16 C: a tile of T per thread, or per tile of the block if K is cut

  Scratch(Carver& carver, const GemmShape& shape, bool narrow_c, int num_threads) {
    const Blocking<T> block(shape);
    a = carver.take<T>(block.m * block.k);
    // Of few rows no more than of many: callers cut a workspace for all chunks of their rows.
    b = carver.take<T>(std::max<std::int64_t>(num_threads * kPanelColumns<T>, block.n) * block.k);
    bias = carver.take<T>(block.n);
    const std::int64_t num_sums = block.k < shape.k ? block.max_tiles() : num_threads;
    sums = carver.take<T>(narrow_c ? num_sums * block.tile_rows * block.tile_columns() : 0);
  }
};

// One pass of the outer loops, and its grid of tiles.
template <class T>
struct Block {
  std::int64_t m0, m, n0, n, k0, k;
  bool first_k, last_k;
  Panels panels;
};

// A task: rows [row, row + rows) and panels [first_panel, last_panel) of a block.
struct Tile {
  std::int64_t row, rows, first_panel, last_panel;
};

template <class A, class B, class C>
class Product {
 public:
  using T = Compute<C>;
  static constexpr bool kNarrowC = !std::is_same_v<T, C>;
  static constexpr int kWidth = kLanes<T>;

  Product(ThreadPool& pool, const Gemm<A, B, C>& gemm, Carver carver)
      : pool_(pool),
        gemm_(gemm),
        blocking_(gemm.shape),
        scratch_(carver, gemm.shape, kNarrowC, pool.num_threads()),
        // A bias alone is an addend of the micro-kernel; these need a pass over C.
        scales_c_(gemm.beta != 0 && (gemm.beta != 1 || gemm.bias != nullptr || kNarrowC)) {}

  void run() {
    const auto [m, n, k] = gemm_.shape;
    const std::int64_t num_k = std::max<std::int64_t>(1, ceil_div(k, blocking_.k));
    for (std::int64_t n0 = 0; n0 < n; n0 += blocking_.n) {
      for (std::int64_t m0 = 0; m0 < m; m0 += blocking_.m) {
        for (std::int64_t i = 0; i < num_k; ++i) {
          Block<T> block{};
          block.m0 = m0, block.m = std::min(blocking_.m, m - m0);
          block.n0 = n0, block.n = std::min(blocking_.n, n - n0);
          block.k0 = i * blocking_.k, block.k = std::min(blocking_.k, k - block.k0);
          block.first_k = i == 0, block.last_k = i + 1 == num_k;
          block.panels = {ceil_div(block.n, kWidth)};
          // With K in one piece, the operand whose block did not change is still packed.
          const bool keeps_a = num_k == 1 && blocking_.m >= m && n0 > 0;
          const bool keeps_b = num_k == 1 && m0 > 0;
          pack(block, !keeps_a, !keeps_b);
          multiply(block);
        }
      }
    }
  }

 private:
  void pack(const Block<T>& block, bool pack_a, bool pack_b) {
    const PackSource<A> a =
        PackSource<A>{gemm_.a.data, gemm_.a.ld, gemm_.a.transposed}.from(block.m0, block.k0);
    const PackSource<B> b = source_of_b(block);
    const Panels& panels = block.panels;
    if (gemm_.bias != nullptr) {
      for (std::int64_t j = 0; j < block.n; ++j) scratch_.bias[j] = widened<T>(gemm_.bias[block.n0 + j]);
      std::fill(scratch_.bias + block.n, scratch_.bias + panels.num_vectors * kWidth, T{0});
    }
    const std::int64_t num_b = pack_b && !blocking_.few_rows ? ceil_div(panels.count(), kPackedPanels) : 0;
    const std::int64_t first_row = direct_rows(block);
    const std::int64_t num_a = pack_a ? ceil_div(block.m - first_row, kPackedRows) : 0;
    pool_.for_each_task(num_a + num_b, [&](std::int64_t task, int) {
      if (task < num_b) {
        pack_b_panels(block, b, task * kPackedPanels, std::min((task + 1) * kPackedPanels, panels.count()));
      } else {
        const std::int64_t row = first_row + (task - num_b) * kPackedRows;
        pack_part<kTileRows>(a.from(row, 0), std::min(kPackedRows, block.m - row), block.m, block.k,
                             scratch_.a + row * block.k, kTileRows);
      }
    });
  }

  PackSource<B> source_of_b(const Block<T>& block) const {
    return PackSource<B>{gemm_.b.data, gemm_.b.ld, !gemm_.b.transposed}.from(block.n0, block.k0);
  }

  // A panel of B where the micro-kernel reads it: packed with all others, or here and now.
  const T* packed_panel(const Block<T>& block, std::int64_t panel, int worker) {
    const std::int64_t column = block.panels.begin(panel) * kWidth;
    if (!blocking_.few_rows) return scratch_.b + column * block.k;
    T* const to = scratch_.b + worker * kPanelColumns<T> * blocking_.k;
    const std::int64_t width = block.panels.width(panel) * kWidth;
    pack_panels<kWidth>(source_of_b(block).from(column, 0), std::min(width, block.n - column), block.k, to,
                        width);
    return to;
  }

  // Panels [first, last): those of three vectors in one call, then those of two.
  void pack_b_panels(const Block<T>& block, const PackSource<B>& b, std::int64_t first, std::int64_t last) {
    while (first < last) {
      const std::int64_t column = block.panels.begin(first) * kWidth;
      const int num_vectors = block.panels.width(first);
      while (first < last && block.panels.width(first) == num_vectors) ++first;
      const std::int64_t end = std::min(block.n, block.panels.begin(first) * kWidth);
      pack_part<kWidth>(b.from(column, 0), end - column, block.n, block.k, scratch_.b + column * block.k,
                        num_vectors * kWidth);
    }
  }

  // Packs `width` of the `whole` rows or columns of a block.
  template <int Lanes, class S>
  static void pack_part(const PackSource<S>& source, std::int64_t width, std::int64_t whole, std::int64_t k,
                        T* to, std::int64_t panel_width) {
    // With an odd k, panels of half a vector would begin in the middle of one.
    const bool aligned = panel_width * k % kWidth == 0;
    if (aligned && whole * k * static_cast<std::int64_t>(sizeof(T)) > kCachedBytes) {
      pack_panels<Lanes, PackTo::memory>(source, width, k, to, panel_width);
    } else {
      pack_panels<Lanes, PackTo::cache>(source, width, k, to, panel_width);
    }
  }

  // How many rows of A the micro-kernel reads where they lie: all whole tiles, if k is contiguous in A and
  // nothing needs widening. Packing them would cost a tenth of the product when N is small.
  std::int64_t direct_rows(const Block<T>& block) const {
    return std::is_same_v<A, T> && !gemm_.a.transposed ? block.m / kTileRows * kTileRows : 0;
  }

  void multiply(const Block<T>& block) {
    const std::int64_t down = ceil_div(block.m, blocking_.tile_rows);
    const std::int64_t across = ceil_div(block.panels.count(), blocking_.tile_panels);
    pool_.for_each_task(down * across, [&](std::int64_t task, int worker) {
      Tile tile{};
      tile.row = task % down * blocking_.tile_rows;  // neighbours in time share panels of B
      tile.rows = std::min(blocking_.tile_rows, block.m - tile.row);
      tile.first_panel = task / down * blocking_.tile_panels;
      tile.last_panel = std::min(tile.first_panel + blocking_.tile_panels, block.panels.count());
      const std::int64_t slot = blocking_.k < gemm_.shape.k ? task : worker;
      T* sums = scratch_.sums + slot * blocking_.tile_rows * blocking_.tile_columns();
      if (scales_c_ && block.first_k) start_tile(block, tile, sums);
      for (std::int64_t p = tile.first_panel; p < tile.last_panel; ++p) {
        multiply_panel(block, tile, p, packed_panel(block, p, worker), sums);
      }
      if constexpr (kNarrowC) {
        if (block.last_k) narrow_tile(block, tile, sums);
      }
    });
  }

  std::int64_t first_column(const Block<T>& block, const Tile& tile) const {
    return block.panels.begin(tile.first_panel) * kWidth;
  }
  std::int64_t end_column(const Block<T>& block, const Tile& tile) const {
    return std::min(block.n, block.panels.begin(tile.last_panel) * kWidth);
  }
  C* c_at(const Block<T>& block, std::int64_t row, std::int64_t column) const {
    return gemm_.c.data + (block.m0 + row) * gemm_.c.ld + block.n0 + column;
  }

  // beta * C + bias, into where the tile's sums are kept.
  void start_tile(const Block<T>& block, const Tile& tile, T* sums) {
    const std::int64_t begin = first_column(block, tile), end = end_column(block, tile);
    const T beta = static_cast<T>(gemm_.beta);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      C* c = c_at(block, tile.row + r, 0);
      for (std::int64_t j = begin; j < end; ++j) {
        const T start = beta * widened<T>(c[j]) + (gemm_.bias != nullptr ? scratch_.bias[j] : T{0});
        if constexpr (kNarrowC) {
          sums[r * blocking_.tile_columns() + j - begin] = start;
        } else {
          c[j] = start;
        }
      }
    }
  }

  void narrow_tile(const Block<T>& block, const Tile& tile, const T* sums) {
    const std::int64_t begin = first_column(block, tile), end = end_column(block, tile);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      C* c = c_at(block, tile.row + r, begin);
      for (std::int64_t j = 0; j < end - begin; ++j) c[j] = C(sums[r * blocking_.tile_columns() + j]);
    }
  }

  void multiply_panel(const Block<T>& block, const Tile& tile, std::int64_t panel, const T* b, T* sums) {
    const std::int64_t column = block.panels.begin(panel) * kWidth;
    const int num_vectors = block.panels.width(panel);
    const bool accumulates = !block.first_k || gemm_.beta != 0;
    TileOperands<T> operands;
    operands.alpha = static_cast<T>(gemm_.alpha);
    operands.k = block.k;
    operands.b = b;
    operands.ldb = num_vectors * kWidth;
    const std::int64_t num_row_tiles = ceil_div(tile.rows, kTileRows);
    const bool has_next = !blocking_.few_rows && panel + 1 < block.panels.count();
    operands.next_step = has_next ? ceil_div(operands.ldb, num_row_tiles) : 0;
    for (std::int64_t r = 0; r < tile.rows; r += kTileRows) {
      if (has_next)
        operands.next = operands.b + (operands.ldb + r / kTileRows * operands.next_step) * block.k;
      if constexpr (kNarrowC) {
        operands.c = sums + r * blocking_.tile_columns() + column - first_column(block, tile);
        operands.ldc = blocking_.tile_columns();
      } else {
        operands.c = c_at(block, tile.row + r, column);
        operands.ldc = gemm_.c.ld;
      }
      operands.addend = accumulates ? operands.c : gemm_.bias != nullptr ? scratch_.bias + column : nullptr;
      operands.ld_addend = accumulates ? operands.ldc : 0;
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, tile.rows - r);
      const std::int64_t columns = std::min(num_vectors * std::int64_t{kWidth}, block.n - column);
      if (kNarrowC || (rows == kTileRows && columns == num_vectors * kWidth)) {
        multiply_rows(block, tile.row + r, num_vectors, operands);
      } else {
        multiply_edge(block, tile.row + r, num_vectors, operands, columns);
      }
    }
  }

  void multiply_rows(const Block<T>& block, std::int64_t row, int num_vectors, TileOperands<T>& operands) {
    if constexpr (std::is_same_v<A, T>) {
      if (row < direct_rows(block)) {
        operands.a = gemm_.a.data + (block.m0 + row) * gemm_.a.ld + block.k0;
        operands.a_stride = gemm_.a.ld;
        return multiply_tile<RowsOfA::strided>(num_vectors, operands);
      }
    }
    operands.a = scratch_.a + row * block.k;
    operands.a_stride = kTileRows;
    multiply_tile<RowsOfA::adjacent>(num_vectors, operands);
  }

  // A tile that reaches beyond C: the same micro-kernel into a small buffer.
  void multiply_edge(const Block<T>& block, std::int64_t row, int num_vectors, TileOperands<T> operands,
                     std::int64_t columns) {
    constexpr std::int64_t ld = kMaxTileVectors * kWidth;
    const std::int64_t rows = std::min<std::int64_t>(kTileRows, block.m - row);
    T buffer[kTileRows * ld] = {};
    T* const c = operands.c;
    const std::int64_t ldc = operands.ldc;
    operands.c = buffer;
    operands.ldc = ld;
    if (operands.addend == c) {
      for (std::int64_t r = 0; r < rows; ++r) std::copy_n(c + r * ldc, columns, buffer + r * ld);
      operands.addend = buffer;
      operands.ld_addend = ld;
    }
    multiply_rows(block, row, num_vectors, operands);
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(buffer + r * ld, columns, c + r * ldc);
  }

  ThreadPool& pool_;
  const Gemm<A, B, C>& gemm_;
  const Blocking<T> blocking_;
  const Scratch<T> scratch_;
  const bool scales_c_;
};

}  // namespace

std::int64_t gemm_workspace_bytes(const GemmShape& shape, DType c_dtype, int num_threads) {
  Carver counter;
  if (c_dtype == DType::f64) {
    Scratch<double>(counter, shape, false, num_threads);
  } else {
    Scratch<float>(counter, shape, c_dtype == DType::bf16, num_threads);
  }
  return counter.num_bytes();
}

template <class A, class B, class C>
void gemm(ThreadPool& pool, const Gemm<A, B, C>& product, std::span<std::byte> workspace) {
  TS_ASSERT(!product.c.transposed);
  TS_ASSERT(dtype_of<C> != DType::bf16 || product.beta == 0 || product.beta == 1);
  TS_ASSERT(std::ssize(workspace) >= gemm_workspace_bytes(product.shape, dtype_of<C>, pool.num_threads()));
  Product<A, B, C>(pool, product, Carver(workspace)).run();
}

template void gemm(ThreadPool&, const Gemm<float, float, float>&, std::span<std::byte>);
template void gemm(ThreadPool&, const Gemm<float, float, Bf16>&, std::span<std::byte>);
template void gemm(ThreadPool&, const Gemm<float, Bf16, float>&, std::span<std::byte>);
template void gemm(ThreadPool&, const Gemm<float, Bf16, Bf16>&, std::span<std::byte>);
template void gemm(ThreadPool&, const Gemm<Bf16, float, float>&, std::span<std::byte>);
template void gemm(ThreadPool&, const Gemm<Bf16, float, Bf16>&, std::span<std::byte>);
template void gemm(ThreadPool&, const Gemm<Bf16, Bf16, float>&, std::span<std::byte>);
template void gemm(ThreadPool&, const Gemm<Bf16, Bf16, Bf16>&, std::span<std::byte>);
template void gemm(ThreadPool&, const Gemm<double, double, double>&, std::span<std::byte>);

}  // namespace tessera::cpu
