// The kernels of rms_norm_grad and layer_norm_grad, alone or with the addition that their dx goes into.
//
// Blocks stay: as many as run at once, each with every gridDim-th row (or eight of them). A thread copies its
// packs of the rows to come into a ring in shared memory, so the reads of the next rows run under the sums of
// this one. Its sums for the weights stay in registers over all of its rows and are written once; a second,
// small kernel adds up the blocks' sums.
#pragma once

#include <array>

#include "tessera/backend/cuda/norm_row_grads.cuh"

namespace tessera::cuda {

// Rows a little too wide for a warp with four packs a thread are a warp's with seven here: a block's barriers
// for rows of 1600 cost more than the registers.
inline constexpr int kWideOwned = 7;

inline RowLayout grad_layout(std::int64_t packs) {
  const bool wide = packs > RowLayout::kMostOwned * kWarp && packs <= kWideOwned * kWarp;
  return wide ? RowLayout{kWideOwned, kWarp, RowLayout::kWarpRows} : row_layout(packs);
}

template <class F>
void with_grad_layout(const RowLayout& layout, F&& f) {
  if (layout.owned == kWideOwned) return f(std::integral_constant<int, kWideOwned>{}, std::true_type{});
  with_row_layout(layout, f);
}

template <Norm kNorm, bool kWarpRow, int kOwned, bool kAdd, class T>
__global__ void __launch_bounds__(kWarpRow ? kWarp* RowLayout::kWarpRows : RowLayout::kMostThreads,
                                  kWarpRow&& kOwned != kWideOwned ? 2 : 1)
    norm_grads(NormGradOperands<T> o, int stages) {
  using Grads = RowGrads<kNorm, kWarpRow, kOwned, kAdd, T>;
  extern __shared__ uint4 shared[];
  __shared__ float of_warp[2][kRowWarps][Grads::kSums];
  Grads grads(o, {shared, stages});
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.y;
  std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  for (int stage = 0; stage < stages; ++stage) {
    if (row + stage * step < o.shape.rows) grads.fetch(row + stage * step, stage);
    end_copy_group();
  }
  int stage = 0, turn = 0;
  for (; row < o.shape.rows; row += step) {
    wait_for_oldest(stages);
    grads.use(row, stage, of_warp[turn]);
    if (row + stages * step < o.shape.rows) grads.fetch(row + stages * step, stage);
    end_copy_group();
    stage = stage + 1 == stages ? 0 : stage + 1;
    turn = 1 - turn;
  }
  const std::int64_t num_sums = Grads::kSums * o.shape.columns;
  float* const partial = o.partial + blockIdx.x * num_sums;
  if constexpr (!kWarpRow) {
    grads.write_sums(partial);
  } else {
    // The sums of the block's warps take the ring's place and are added up in their order.
    auto* const of_rows = reinterpret_cast<float*>(shared);
    __syncthreads();
    grads.write_sums(of_rows + threadIdx.y * num_sums);
    __syncthreads();
    for (std::int64_t c = threadIdx.y * kWarp + threadIdx.x; c < num_sums;
         c += kWarp * RowLayout::kWarpRows) {
      float total = 0;
      for (unsigned y = 0; y < RowLayout::kWarpRows; ++y) total += of_rows[y * num_sums + c];
      partial[c] = total;
    }
  }
}

// As many as run at once: what layer_norm's registers allow.
inline unsigned blocks_per_multiprocessor(const RowLayout& layout) {
  if (layout.rows > 1) return layout.owned == kWideOwned ? 1 : 2;
  const unsigned threads_at_once = layout.owned == 1 ? 768 : 512;
  return std::max(1u, threads_at_once / layout.threads);
}

// Rows are dealt to this many blocks, whichever kernel runs.
inline std::int64_t norm_parts(MatrixShape shape, DType dtype) {
  const std::int64_t packs = num_blocks(shape.columns, 16 / dtype_bytes(dtype));
  if (!layout_fits(packs)) return std::min(shape.rows, kMultiprocessors);
  const RowLayout layout = grad_layout(packs);
  return std::min<std::int64_t>(num_blocks(shape.rows, layout.rows),
                                kMultiprocessors * blocks_per_multiprocessor(layout));
}

inline std::int64_t norm_partial_elems(MatrixShape shape, DType dtype, int sums) {
  return norm_parts(shape, dtype) * sums * shape.columns;
}

// Of shared memory: rows to come as far as it allows, and the room for the block's sums at the end.
struct GradRing {
  int stages;
  std::size_t bytes;

  GradRing(const RowLayout& layout, std::int64_t stage_bytes, std::int64_t sums_bytes) {
    constexpr std::int64_t kBytesAtOnce = 218 * 1024;
    const std::int64_t stage = stage_bytes * layout.block_threads();
    stages = static_cast<int>(
        std::clamp<std::int64_t>(kBytesAtOnce / blocks_per_multiprocessor(layout) / stage, 1, kMostStages));
    bytes = static_cast<std::size_t>(std::max(stages * stage, layout.rows > 1 ? sums_bytes : 0));
  }
};

template <Norm kNorm, class T>
void run_any_norm_grad(Context& context, const NormGradOperands<T>& o, std::int64_t parts) {
  TS_ASSERT(o.addend == nullptr);
  const dim3 grid(num_blocks(o.shape.columns, kThreads), static_cast<unsigned>(parts));
  sum_any_columns<kNorm><<<grid, kThreads, 0, context.stream>>>(o.dy, o.x, o.of_row, o.shape,
                                                                num_blocks(o.shape.rows, parts), o.partial);
  const NormColumns<T> columns{o.x, o.weight, nullptr, static_cast<int>(o.shape.columns)};
  grad_of_any_rows<kNorm>
      <<<static_cast<unsigned>(o.shape.rows), row_threads(o.shape.columns, 1), 0, context.stream>>>(
          o.dy, columns, o.of_row, o.result);
}

// The result, and the weights' gradients in `sums`.
template <Norm kNorm, class T>
void run_norm_grad(Context& context, const NormGradOperands<T>& o,
                   const std::array<float*, kNormSums<kNorm>>& sums) {
  const std::int64_t parts = norm_parts(o.shape, kDTypeOf<T>);
  const bool packs = packs_fit<T>(o.shape.columns, o.dy, o.x, o.weight, o.addend, o.result);
  if (!packs || !layout_fits(o.shape.columns / kPack<T>)) {
    run_any_norm_grad<kNorm>(context, o, parts);
  } else {
    const RowLayout layout = grad_layout(o.shape.columns / kPack<T>);
    with_grad_layout(layout, [&]<class Owned, class WarpRow>(Owned, WarpRow) {
      const auto launch = [&]<class Add>(Add) {
        constexpr int kOwned = Owned::value;
        constexpr auto* kKernel = norm_grads<kNorm, WarpRow::value, kOwned, Add::value, T>;
        using Ring = PackRing<Add::value ? 3 : 2, kNormSums<kNorm>, kOwned>;
        const GradRing ring(layout, Ring::kStageBytes,
                            layout.rows * kNormSums<kNorm> * o.shape.columns * std::int64_t{sizeof(float)});
        allow_shared_bytes(kKernel, ring.bytes);
        kKernel<<<static_cast<unsigned>(parts), layout.block(), ring.bytes, context.stream>>>(o, ring.stages);
      };
      o.addend == nullptr ? launch(std::false_type{}) : launch(std::true_type{});
    });
  }
  add_partial_sums(context, o.partial, {parts, o.shape.columns}, sums, o.starts_sums);
}

}  // namespace tessera::cuda
