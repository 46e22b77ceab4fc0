#include "tessera/backend/cpu/gemm.h"

#include <algorithm>
#include <type_traits>

#include "tessera/backend/cpu/gemm_blocks.h"
#include "tessera/backend/cpu/gemm_pack.h"
#include "tessera/backend/cpu/gemm_schedule.h"
#include "tessera/backend/cpu/workspace.h"
#include "tessera/base/error.h"

namespace tessera::cpu {
namespace {

// Packed blocks up to this size stay in the caches between packing and use.
constexpr std::int64_t kCachedBytes = 2 << 20;

template <class T>
struct Scratch {
  T* a;     // a tile's rows per thread, in panels of kTileRows of them
  T* b;     // a slot or two for blocks, in panels of one to three vectors; with few rows, a panel per thread
  T* bias;  // of all columns, in whole vectors
  T* sums;  // for a Bf16 C: a tile of T per thread, or per tile of a block if K is cut
  std::int64_t* rows_in_a;    // which rows a thread has packed, as pack_a_rows numbers them
  std::int32_t* blocks_done;  // the schedule's, per tile of a block

  Scratch(Carver& carver, const GemmShape& shape, bool narrow_c, int num_threads) {
    const Blocking<T> block(shape);
    a = carver.take<T>(num_threads * kMaxTileRows * block.k);
    b = carver.take<T>((block.few_rows ? num_threads * kPanelColumns<T> : block.b_slots() * block.n) *
                       block.k);
    bias = carver.take<T>(round_up(shape.n, kLanes<T>));
    const std::int64_t num_sums = block.num_k > 1 ? block.num_tiles() : num_threads;
    sums = carver.take<T>(narrow_c ? num_sums * block.tile_rows * block.tile_columns() : 0);
    rows_in_a = carver.take<std::int64_t>(num_threads);
    blocks_done = carver.take<std::int32_t>(block.num_tiles());
  }
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
    if (gemm_.bias != nullptr) {
      const std::int64_t n = gemm_.shape.n;
      for (std::int64_t j = 0; j < n; ++j) scratch_.bias[j] = widened<T>(gemm_.bias[j]);
      std::fill(scratch_.bias + n, scratch_.bias + round_up(n, kWidth), T{0});
    }
    std::fill_n(scratch_.rows_in_a, pool_.num_threads(), -1);
    GemmSchedule schedule(blocking_.num_blocks(), num_packs(),
                          {scratch_.blocks_done, static_cast<std::size_t>(blocking_.num_tiles())});
    pool_.for_each_task(schedule.num_tasks(), [&](std::int64_t number, int worker) {
      const GemmSchedule::Task task = schedule.task(number);
      if (!schedule.contains(task)) return;
      schedule.wait_for(task);
      const Block block = blocking_.block(task.block);
      task.packs ? pack(block, task.index) : multiply(block, task.index, worker);
      schedule.finish(task);
    });
  }

 private:
  // Of a whole block.
  std::int64_t num_packs() const {
    return blocking_.few_rows ? 0 : ceil_div(Panels{ceil_div(blocking_.n, kWidth)}.count(), kPackedPanels);
  }

  void pack(const Block& block, std::int64_t index) {
    const std::int64_t first = index * kPackedPanels, count = block.panels.count();
    if (block.new_b && first < count)
      pack_b_panels(block, source_of_b(block), first, std::min(first + kPackedPanels, count));
  }

  T* packed_a(int worker) const { return scratch_.a + worker * kMaxTileRows * blocking_.k; }
  T* packed_b(const Block& block) const { return scratch_.b + block.b_slot * blocking_.n * blocking_.k; }

  PackSource<B> source_of_b(const Block& block) const {
    return PackSource<B>{gemm_.b.data, gemm_.b.ld, !gemm_.b.transposed}.from(block.n0, block.k0);
  }

  // A panel of B where the micro-kernel reads it: packed with all others, or here and now.
  const T* packed_panel(const Block& block, std::int64_t panel, int worker) {
    const std::int64_t column = block.panels.begin(panel) * kWidth;
    if (!blocking_.few_rows) return packed_b(block) + column * block.k;
    T* const to = scratch_.b + worker * kPanelColumns<T> * blocking_.k;
    const std::int64_t width = block.panels.width(panel) * kWidth;
    pack_panels<kWidth>(source_of_b(block).from(column, 0), std::min(width, block.n - column), block.k, to,
                        width);
    return to;
  }

  // Panels [first, last): those of three vectors in one call, then those of two.
  void pack_b_panels(const Block& block, const PackSource<B>& b, std::int64_t first, std::int64_t last) {
    while (first < last) {
      const std::int64_t column = block.panels.begin(first) * kWidth;
      const int num_vectors = block.panels.width(first);
      while (first < last && block.panels.width(first) == num_vectors) ++first;
      const std::int64_t end = std::min(block.n, block.panels.begin(first) * kWidth);
      T* const to = packed_b(block) + column * block.k;
      if (block.n * block.k * static_cast<std::int64_t>(sizeof(T)) > kCachedBytes) {
        pack_panels<kWidth, PackTo::memory>(b.from(column, 0), end - column, block.k, to,
                                            num_vectors * kWidth);
      } else {
        pack_panels<kWidth, PackTo::cache>(b.from(column, 0), end - column, block.k, to,
                                           num_vectors * kWidth);
      }
    }
  }

  // How many rows of A the micro-kernel reads where they lie: all whole tiles, if k is contiguous in A and
  // nothing needs widening. Packing them would cost a tenth of the product when N is small.
  bool reads_a_directly() const { return std::is_same_v<A, T> && !gemm_.a.transposed; }
  std::int64_t direct_rows(const Block& block) const {
    return reads_a_directly() ? block.m / kTileRows * kTileRows : 0;
  }

  // Packs the other rows of a tile into the thread's own corner of the cache: nearly always the tile is as
  // wide as the block and the only one that needs them. With few rows all tiles have the same ones, which a
  // thread packs once.
  void pack_a_rows(const Block& block, const Tile& tile, int worker) {
    const std::int64_t row = std::max(tile.row, direct_rows(block)), end = tile.row + tile.rows;
    const std::int64_t rows_number = (block.m0 + row) * blocking_.num_k + block.k0 / blocking_.k;
    if (row >= end || scratch_.rows_in_a[worker] == rows_number) return;
    scratch_.rows_in_a[worker] = rows_number;
    const PackSource<A> a{gemm_.a.data, gemm_.a.ld, gemm_.a.transposed};
    pack_panels<kTileRows>(a.from(block.m0 + row, block.k0), end - row, block.k,
                           packed_a(worker) + (row - tile.row) * block.k, kTileRows);
  }

  void multiply(const Block& block, std::int64_t index, int worker) {
    const Tile tile = blocking_.tile(block, index);
    if (tile.empty()) return;
    const std::int64_t slot = blocking_.num_k > 1 ? index : worker;
    T* sums = scratch_.sums + slot * blocking_.tile_rows * blocking_.tile_columns();
    pack_a_rows(block, tile, worker);
    if (scales_c_ && block.first_k) start_tile(block, tile, sums);
    for (std::int64_t p = tile.first_panel; p < tile.last_panel; ++p) {
      multiply_panel(block, tile, p, packed_panel(block, p, worker), packed_a(worker), sums);
    }
    if constexpr (kNarrowC) {
      if (block.last_k) narrow_tile(block, tile, sums);
    }
  }

  std::int64_t first_column(const Block& block, const Tile& tile) const {
    return block.panels.begin(tile.first_panel) * kWidth;
  }
  std::int64_t end_column(const Block& block, const Tile& tile) const {
    return std::min(block.n, block.panels.begin(tile.last_panel) * kWidth);
  }
  C* c_at(const Block& block, std::int64_t row, std::int64_t column) const {
    return gemm_.c.data + (block.m0 + row) * gemm_.c.ld + block.n0 + column;
  }

  // beta * C + bias, into where the tile's sums are kept.
  void start_tile(const Block& block, const Tile& tile, T* sums) {
    const std::int64_t begin = first_column(block, tile), end = end_column(block, tile);
    const T beta = static_cast<T>(gemm_.beta);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      C* c = c_at(block, tile.row + r, 0);
      for (std::int64_t j = begin; j < end; ++j) {
        const T start =
            beta * widened<T>(c[j]) + (gemm_.bias != nullptr ? scratch_.bias[block.n0 + j] : T{0});
        if constexpr (kNarrowC) {
          sums[r * blocking_.tile_columns() + j - begin] = start;
        } else {
          c[j] = start;
        }
      }
    }
  }

  void narrow_tile(const Block& block, const Tile& tile, const T* sums) {
    const std::int64_t begin = first_column(block, tile), end = end_column(block, tile);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      C* c = c_at(block, tile.row + r, begin);
      for (std::int64_t j = 0; j < end - begin; ++j) c[j] = C(sums[r * blocking_.tile_columns() + j]);
    }
  }

  // `a`: the rows of A that are packed, as if the tile's were.
  void multiply_panel(const Block& block, const Tile& tile, std::int64_t panel, const T* b, const T* a,
                      T* sums) {
    const std::int64_t column = block.panels.begin(panel) * kWidth;
    const int num_vectors = block.panels.width(panel);
    const bool accumulates = !block.first_k || gemm_.beta != 0;
    TileOperands<T> operands;
    operands.alpha = static_cast<T>(gemm_.alpha);
    operands.k = block.k;
    operands.b = b;
    operands.ldb = num_vectors * kWidth;
    const std::int64_t num_row_tiles = ceil_div(tile.rows, kTileRows);
    // Behind the last panel comes the next tile, which nearly always begins where this one began.
    const bool has_next = !blocking_.few_rows;
    const std::int64_t next_panel = panel + 1 < tile.last_panel ? panel + 1 : tile.first_panel;
    const T* const next_b = packed_b(block) + block.panels.begin(next_panel) * kWidth * block.k;
    operands.next_step = has_next ? ceil_div(operands.ldb, num_row_tiles) : 0;
    for (std::int64_t r = 0; r < tile.rows; r += kTileRows) {
      if (has_next) operands.next = next_b + r / kTileRows * operands.next_step * block.k;
      if constexpr (kNarrowC) {
        operands.c = sums + r * blocking_.tile_columns() + column - first_column(block, tile);
        operands.ldc = blocking_.tile_columns();
      } else {
        operands.c = c_at(block, tile.row + r, column);
        operands.ldc = gemm_.c.ld;
      }
      operands.addend = accumulates             ? operands.c
                        : gemm_.bias != nullptr ? scratch_.bias + block.n0 + column
                                                : nullptr;
      operands.ld_addend = accumulates ? operands.ldc : 0;
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, tile.rows - r);
      operands.a = a + r * block.k;
      const std::int64_t columns = std::min(num_vectors * std::int64_t{kWidth}, block.n - column);
      if (kNarrowC || (rows == kTileRows && columns == num_vectors * kWidth)) {
        multiply_rows(block, tile.row + r, num_vectors, operands);
      } else {
        multiply_edge(block, tile.row + r, num_vectors, operands, columns);
      }
    }
  }

  void multiply_rows(const Block& block, std::int64_t row, int num_vectors, TileOperands<T>& operands) {
    if constexpr (std::is_same_v<A, T>) {
      if (row < direct_rows(block)) {
        operands.a = gemm_.a.data + (block.m0 + row) * gemm_.a.ld + block.k0;
        operands.a_stride = gemm_.a.ld;
        return multiply_tile<RowsOfA::strided>(num_vectors, operands);
      }
    }
    operands.a_stride = kTileRows;
    multiply_tile<RowsOfA::adjacent>(num_vectors, operands);
  }

  // A tile that reaches beyond C: the same micro-kernel into a small buffer.
  void multiply_edge(const Block& block, std::int64_t row, int num_vectors, TileOperands<T> operands,
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
