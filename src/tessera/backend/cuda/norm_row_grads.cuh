// RowGrads: what a thread of rms_norm_grad's and layer_norm_grad's kernel does with its packs of a row, and
// its sums for the weights over all of its rows.
#pragma once

#include "tessera/backend/cuda/norm_any_width.cuh"
#include "tessera/backend/cuda/norm_rows.cuh"
#include "tessera/backend/cuda/pack_ring.cuh"

namespace tessera::cuda {

template <class T>
struct NormGradOperands {
  const T* dy = nullptr;
  const T* x = nullptr;
  const T* weight = nullptr;
  RowStatistics of_row = {};
  const T* addend = nullptr;  // the result is dx, rounded, plus this; null: dx alone
  T* result = nullptr;        // may lie on dy or addend
  float* partial = nullptr;   // [blocks, sums, columns]
  MatrixShape shape;
  bool starts_sums = false;
};

template <Norm kNorm, bool kWarpRow, int kOwned, bool kAdd, class T>
class RowGrads {
 public:
  static constexpr int W = kPack<T>, kSums = kNormSums<kNorm>;
  using Ring = PackRing<kAdd ? 3 : 2, kSums, kOwned>;

  __device__ RowGrads(const NormGradOperands<T>& operands, Ring ring) : o_(operands), ring_(ring) {
#pragma unroll
    for (int p = 0; p < kOwned; ++p) {
      if (owns(p)) weight_[p] = *reinterpret_cast<const Pack<T, W>*>(o_.weight + column(p));
    }
  }

  __device__ void fetch(std::int64_t row, int stage) const {
    const std::int64_t begin = row * o_.shape.columns;
#pragma unroll
    for (int p = 0; p < kOwned; ++p) {
      if (!owns(p)) continue;
      copy_async<16>(ring_.pack(stage, 0, p), o_.dy + begin + column(p));
      copy_async<16>(ring_.pack(stage, 1, p), o_.x + begin + column(p));
      if constexpr (kAdd) copy_async<16>(ring_.pack(stage, 2, p), o_.addend + begin + column(p));
    }
    copy_async<4>(ring_.stat(stage, 0), o_.of_row.inverses + row);
    if constexpr (kNorm == Norm::layer) copy_async<4>(ring_.stat(stage, 1), o_.of_row.means + row);
  }

  // `of_warp`: as sum_over_row has it.
  __device__ void use(std::int64_t row, int stage, float (&of_warp)[kRowWarps][kSums]) {
    const float inverse = *ring_.stat(stage, 0);
    const float mean = kNorm == Norm::layer ? *ring_.stat(stage, kSums - 1) : 0.0f;
    float sums[kSums] = {};  // of dy w n, and of dy w
#pragma unroll
    for (int p = 0; p < kOwned; ++p) {
      if (!owns(p)) continue;
      float d[W], v[W];
      read(stage, 0, p, d);
      read(stage, 1, p, v);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float normed = (v[i] - mean) * inverse, weighted = d[i] * widen(weight_[p].elems[i]);
        of_column_[0][p][i] = fmaf(d[i], normed, of_column_[0][p][i]);
        sums[0] = fmaf(weighted, normed, sums[0]);
        if constexpr (kNorm == Norm::layer) {
          of_column_[1][p][i] += d[i];
          sums[1] = __fadd_rn(sums[1], weighted);
        }
      }
    }
    sum_over_row<kWarpRow>(sums, of_warp);
    const float mean_dot = sums[0] / static_cast<float>(o_.shape.columns);
    const float mean_grad =
        kNorm == Norm::layer ? sums[kSums - 1] / static_cast<float>(o_.shape.columns) : 0.0f;
    T* const to = o_.result + row * o_.shape.columns;
#pragma unroll
    for (int p = 0; p < kOwned; ++p) {
      if (!owns(p)) continue;
      float d[W], v[W];
      read(stage, 0, p, d);
      read(stage, 1, p, v);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float normed = (v[i] - mean) * inverse;
        d[i] = inverse * fmaf(-normed, mean_dot, fmaf(d[i], widen(weight_[p].elems[i]), -mean_grad));
      }
      if constexpr (kAdd) {
        read(stage, 2, p, v);
        // Rounded before the addition, and never one multiply-add: the bits of two ops.
#pragma unroll
        for (int i = 0; i < W; ++i) d[i] = __fadd_rn(widen(narrow<T>(d[i])), v[i]);
      }
      store<W>(to + column(p), d);
    }
  }

  // This thread's sums to sums[kSums, columns].
  __device__ void write_sums(float* sums) const {
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
#pragma unroll
      for (int p = 0; p < kOwned; ++p) {
        if (!owns(p)) continue;
#pragma unroll
        for (int i = 0; i < W; i += 4) {
          float4 four{of_column_[k][p][i], of_column_[k][p][i + 1], of_column_[k][p][i + 2],
                      of_column_[k][p][i + 3]};
          *reinterpret_cast<float4*>(sums + k * o_.shape.columns + column(p) + i) = four;
        }
      }
    }
  }

 private:
  __device__ static int column(int p) {
    return own_column<W>(p);
  }
  __device__ bool owns(int p) const {
    return column(p) < o_.shape.columns;
  }
  __device__ void read(int stage, int tensor, int p, float (&to)[W]) const {
    load<W>(reinterpret_cast<const T*>(ring_.pack(stage, tensor, p)), to);
  }

  const NormGradOperands<T>& o_;
  Ring ring_;
  Pack<T, W> weight_[kOwned] = {};
  float of_column_[kSums][kOwned][W] = {};
};

}  // namespace tessera::cuda
