// How attention copies the queries, keys and values of one head out of the packed tensors, in which the rows
// of a head lie all heads apart, into the order in which its products read them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/backend/cpu/attention_block.h"
#include "tessera/backend/cpu/gemm_pack.h"

namespace tessera::cpu {

template <class S>
inline constexpr std::int64_t kLineElems = 64 / static_cast<std::int64_t>(sizeof(S));
inline constexpr std::int64_t kRowsAhead = 8;

// Fetches a row of a head before it is read or written: rows lie pages apart, which no hardware prefetcher
// follows.
enum class FetchTo { read, write };
template <FetchTo kTo, class S>
[[gnu::always_inline]] inline void fetch_head_row(const S* row, std::int64_t head_dim) {
  for (std::int64_t i = 0; i < head_dim; i += kLineElems<S>) {
    __builtin_prefetch(row + i, kTo == FetchTo::write ? 1 : 0);
  }
}

// Rows [0, rows) of one head, scaled, to contiguous rows of padded_head_dim; rows up to padded_rows and the
// padding of each row become zero.
template <class T, class S>
void copy_head(const S* from, std::int64_t ld, std::int64_t rows, std::int64_t padded_rows,
               std::int64_t head_dim, T scale, T* to) {
  const std::int64_t padded = round_up(head_dim, kLanes<T>);
  for (std::int64_t r = 0; r < rows; ++r) {
    fetch_head_row<FetchTo::read>(from + (r + kRowsAhead) * ld, head_dim);
#pragma omp simd
    for (std::int64_t i = 0; i < head_dim; ++i) to[r * padded + i] = scale * widened<T>(from[r * ld + i]);
    for (std::int64_t i = head_dim; i < padded; ++i) to[r * padded + i] = 0;
  }
  std::fill(to + rows * padded, to + std::max(rows, padded_rows) * padded, T{0});
}

// The transpose of `rows` <= kKeyBlock rows of a head, as panels of B for a product over head_dim; takes
// head_dim * kKeyBlock elements, zero beyond `rows`.
template <class T, class S>
void pack_keys(const S* from, std::int64_t ld, std::int64_t rows, std::int64_t head_dim, T* to) {
  const Panels panels{kKeyBlock / kLanes<T>};
  const PackSource<S> source{from, ld, false};
  for (std::int64_t p = 0; p < panels.count(); ++p) {
    const std::int64_t column = panels.begin(p) * kLanes<T>, width = panels.width(p) * kLanes<T>;
    T* panel = to + column * head_dim;
    for (std::int64_t r = column + width; r < column + 2 * width; ++r) {
      fetch_head_row<FetchTo::read>(from + r * ld, head_dim);  // of the next panel
    }
    if (column >= rows) {
      std::fill(panel, panel + width * head_dim, T{0});
    } else {
      pack_panels<kLanes<T>>(source.from(column, 0), std::min(width, rows - column), head_dim, panel, width);
    }
  }
}

}  // namespace tessera::cpu
