// The kernels of rms_norm and layer_norm, alone or with the addition that makes their input: one read of
// every operand, statistics from registers.
#pragma once

#include "tessera/backend/cuda/norm_any_width.cuh"
#include "tessera/backend/cuda/norm_rows.cuh"

namespace tessera::cuda {

template <class T>
struct NormOperands {
  const T* x = nullptr;
  const T* addend = nullptr;  // with `sum`: x + addend is written there, rounded, and normalised
  T* sum = nullptr;           // may lie on x or addend
  const T* weight = nullptr;
  const T* bias = nullptr;  // rms: none
  T* y = nullptr;
  float* means = nullptr;  // rms: none
  float* inverses = nullptr;
  std::int64_t rows = 0;
  int columns = 0;
  float eps = 0;
};

// A thread's packs of the row that begins at `begin`, zeros behind its end. With kAdd they are the sum's,
// which is written: all loads come before the first store, which may lie on what they read.
template <bool kAdd, int kOwned, int W, class T>
__device__ void load_row(const NormOperands<T>& o, std::int64_t begin, float (&v)[kOwned][W]) {
#pragma unroll
  for (int p = 0; p < kOwned; ++p) {
    if (own_column<W>(p) < o.columns) load<W>(o.x + begin + own_column<W>(p), v[p]);
  }
  if constexpr (kAdd) {
    float addend[kOwned][W] = {};
#pragma unroll
    for (int p = 0; p < kOwned; ++p) {
      if (own_column<W>(p) < o.columns) load<W>(o.addend + begin + own_column<W>(p), addend[p]);
    }
#pragma unroll
    for (int p = 0; p < kOwned; ++p) {
#pragma unroll
      for (int i = 0; i < W; ++i) v[p][i] = widen(narrow<T>(v[p][i] + addend[p][i]));
      if (own_column<W>(p) < o.columns) store<W>(o.sum + begin + own_column<W>(p), v[p]);
    }
  }
}

struct RowMoments {
  float mean, inverse;
};

// The variance comes from the differences to the mean: the mean of the squares minus the square of the mean
// would cancel in rows with a large mean.
template <Norm kNorm, bool kWarpRow, int kOwned, int W>
__device__ RowMoments moments_of_row(const float (&v)[kOwned][W], int columns, float eps) {
  __shared__ float of_warp[2][kRowWarps][1];
  float mean = 0, sum[1] = {}, squares[1] = {};
  if constexpr (kNorm == Norm::layer) {
#pragma unroll
    for (int p = 0; p < kOwned; ++p) {
#pragma unroll
      for (int i = 0; i < W; ++i) sum[0] += v[p][i];
    }
    sum_over_row<kWarpRow>(sum, of_warp[0]);
    mean = sum[0] / static_cast<float>(columns);
  }
#pragma unroll
  for (int p = 0; p < kOwned; ++p) {
    if (own_column<W>(p) >= columns) continue;
#pragma unroll
    for (int i = 0; i < W; ++i) squares[0] = fmaf(v[p][i] - mean, v[p][i] - mean, squares[0]);
  }
  sum_over_row<kWarpRow>(squares, of_warp[1]);
  return {mean, 1.0f / sqrtf(squares[0] / static_cast<float>(columns) + eps)};
}

template <Norm kNorm, bool kWarpRow, int kOwned, bool kAdd, class T>
__global__ void __launch_bounds__(RowLayout::kMostThreads) normalize_rows(NormOperands<T> o) {
  constexpr int W = kPack<T>;
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= o.rows) return;  // a whole warp; where a row is a block's there is none
  float v[kOwned][W] = {};
  load_row<kAdd>(o, row * o.columns, v);
  const auto [mean, inverse] = moments_of_row<kNorm, kWarpRow>(v, o.columns, o.eps);
  if (threadIdx.x == 0) {
    if constexpr (kNorm == Norm::layer) o.means[row] = mean;
    o.inverses[row] = inverse;
  }
#pragma unroll
  for (int p = 0; p < kOwned; ++p) {
    const int column = own_column<W>(p);
    if (column >= o.columns) continue;
    float w[W], b[W] = {};
    load<W>(o.weight + column, w);
    if constexpr (kNorm == Norm::layer) load<W>(o.bias + column, b);
#pragma unroll
    for (int i = 0; i < W; ++i) v[p][i] = affine<kNorm>((v[p][i] - mean) * inverse, w[i], b[i]);
    store<W>(o.y + row * o.columns + column, v[p]);
  }
}

template <Norm kNorm, class T>
void run_norm(Context& context, const NormOperands<T>& o) {
  const bool packs = packs_fit<T>(o.columns, o.x, o.addend, o.sum, o.weight, o.bias, o.y);
  if (!packs || !layout_fits(o.columns / kPack<T>)) {
    TS_ASSERT(o.sum == nullptr);
    const NormColumns<T> columns{o.x, o.weight, o.bias, o.columns};
    normalize_any_rows<kNorm>
        <<<static_cast<unsigned>(o.rows), row_threads(o.columns, 1), 0, context.stream>>>(
            columns, o.y, o.means, o.inverses, o.eps);
    return;
  }
  const RowLayout layout = row_layout(o.columns / kPack<T>);
  with_row_layout(layout, [&]<class Owned, class WarpRow>(Owned, WarpRow) {
    const auto launch = [&]<class Add>(Add) {
      normalize_rows<kNorm, WarpRow::value, Owned::value, Add::value>
          <<<num_blocks(o.rows, layout.rows), layout.block(), 0, context.stream>>>(o);
    };
    o.sum == nullptr ? launch(std::false_type{}) : launch(std::true_type{});
  });
}

}  // namespace tessera::cuda
