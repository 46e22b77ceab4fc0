// The cross entropy of rows of bf16 logits, one read and one write per logit: a block copies its row, or as
// much of it as fits, into shared memory, and the passes over it (maximum, sum, gradient) read it there.
//
// Exponentials are powers of two of logits times log2(e): one multiply-add and one instruction each, exact to
// 2^-22, which is far below the rounding of the logits.
#include <math_constants.h>

#include <cassert>

#include "tessera/backend/cuda/async_copy.cuh"
#include "tessera/backend/cuda/cross_entropy_rows.h"
#include "tessera/backend/cuda/instructions.cuh"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/reduce.cuh"

namespace tessera::cuda {
namespace {

constexpr int W = kPack<BFloat>;
using LogitPack = Pack<BFloat, W>;

__device__ int num_packs(std::int64_t columns) {
  return static_cast<int>((columns + W - 1) / W);
}

// The first `kept` packs of a row in shared memory, the others where they are. In every pass a thread has the
// same packs, and it copied them itself: no barrier.
struct KeptRow {
  const BFloat* logits;
  LogitPack* shared;
  int columns, packs, kept;

  __device__ KeptRow(const BFloat* row, std::int64_t num_columns, LogitPack* memory, int num_kept)
      : logits(row),
        shared(memory),
        columns(static_cast<int>(num_columns)),
        packs(num_packs(num_columns)),
        kept(min(num_kept, packs)) {}

  __device__ void fetch() const {
    for (int p = static_cast<int>(threadIdx.x); p < kept; p += static_cast<int>(blockDim.x)) {
      copy_async<16>(shared + p, logits + p * W);
    }
    end_copy_group();
    wait_for_copies<0>();
    const int last = packs - 1;
    if (last < kept && last % blockDim.x == threadIdx.x) shared[last] = without_padding(shared[last], last);
  }

  // Padding counts as minus infinity: its exponential and its gradient are zero.
  __device__ LogitPack without_padding(LogitPack pack, int p) const {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      if (p * W + i >= columns) pack.elems[i] = narrow<BFloat>(-CUDART_INF_F);
    }
    return pack;
  }

  // In one piece: of a LogitPack whose elements are used one by one the compiler makes eight loads.
  __device__ LogitPack own(int p) const {
    const uint4 words = reinterpret_cast<const uint4*>(shared)[p];
    return __builtin_bit_cast(LogitPack, words);
  }

  // Calls f(p, pack) for this thread's packs.
  template <class F>
  __device__ void for_each_own(F&& f) const {
    const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
#pragma unroll 2
    for (int p = first; p < kept; p += step) f(p, own(p));
    for (int p = kept + first; p < packs; p += step) {
      f(p, without_padding(reinterpret_cast<const LogitPack*>(logits)[p], p));
    }
  }
};

__device__ float largest(const KeptRow& row) {
  __nv_bfloat162 most = __float2bfloat162_rn(-CUDART_INF_F);
  row.for_each_own([&](int, const LogitPack& pack) {
#pragma unroll
    for (int i = 0; i < W; i += 2) most = __hmax2(most, __halves2bfloat162(pack.elems[i], pack.elems[i + 1]));
  });
  return reduce_block(fmaxf(__low2float(most), __high2float(most)), Max{}, -CUDART_INF_F);
}

// Of 2^(logit log2(e) - largest).
__device__ float sum_of_powers(const KeptRow& row, float largest_exponent) {
  float sum = 0;
  row.for_each_own([&](int, const LogitPack& pack) {
    float e[W];
#pragma unroll
    for (int i = 0; i < W; ++i) e[i] = exp2_approx(fmaf(widen(pack.elems[i]), kLog2E, -largest_exponent));
    sum += ((e[0] + e[1]) + (e[2] + e[3])) + ((e[4] + e[5]) + (e[6] + e[7]));
  });
  return block_sum(sum);
}

struct RowGrad {
  BFloat* to;
  float scale;
};

__device__ void write_grad(const KeptRow& row, float largest_exponent, float sum, int target, RowGrad grad) {
  const float factor = grad.scale / sum;
  row.for_each_own([&](int p, const LogitPack& pack) {
    float g[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      g[i] = exp2_approx(fmaf(widen(pack.elems[i]), kLog2E, -largest_exponent)) * factor;
    }
    if (p == target / W) {
#pragma unroll
      for (int i = 0; i < W; ++i) g[i] -= i == target % W ? grad.scale : 0.0f;
    }
    store<W>(grad.to + p * W, g);
  });
}

__device__ void clear_packs(BFloat* grad, int begin, int end) {
  for (int p = begin + static_cast<int>(threadIdx.x); p < end; p += static_cast<int>(blockDim.x)) {
    reinterpret_cast<LogitPack*>(grad)[p] = LogitPack{};
  }
}

constexpr unsigned kMostThreads = 1024;

// The gradient may lie on the logits: after the barriers of the sums no thread reads what another has.
__global__ void __launch_bounds__(kMostThreads)
    loss_of_kept_rows(const BFloat* logits, std::int64_t stride, std::int64_t columns, std::int64_t padding,
                      const std::int32_t* targets, double* losses, BFloat* grads, std::int64_t grad_stride,
                      const float* scale, int kept) {
  extern __shared__ LogitPack shared[];
  const std::int64_t r = blockIdx.x;
  const int target = targets[r];
  assert(target < columns);
  const KeptRow row(logits + r * stride, columns, shared, kept);
  BFloat* const grad = grads == nullptr ? nullptr : grads + r * grad_stride;
  if (grad != nullptr) clear_packs(grad, target < 0 ? 0 : row.packs, num_packs(columns + padding));
  if (target < 0) {
    if (threadIdx.x == 0 && losses != nullptr) losses[r] = 0;
    return;
  }
  const double target_logit = widen(row.logits[target]);
  row.fetch();
  const float largest_exponent = largest(row) * kLog2E;
  const float sum = sum_of_powers(row, largest_exponent);
  if (threadIdx.x == 0 && losses != nullptr) {
    losses[r] = log(static_cast<double>(sum)) + largest_exponent * CUDART_LN2 - target_logit;
  }
  if (grad != nullptr) write_grad(row, largest_exponent, sum, target, {grad, *scale});
}

// Of a row that leaves room for a second block on the multiprocessor, and of any other.
constexpr std::int64_t kHalfOfPacks = 7 * 1024, kMostPacks = 13 * 1024;

}  // namespace

bool can_keep_rows(const LogitRows& rows, const LogitGrads& grads) {
  return rows.dtype == DType::bf16 && rows.columns + rows.padding < std::int64_t{1} << 30 &&
         packs_fit<BFloat>(rows.stride, rows.logits) && packs_fit<BFloat>(grads.stride, grads.data);
}

void cross_entropy_of_kept_rows(Context& context, const LogitRows& rows, double* losses,
                                const LogitGrads& grads) {
  TS_ASSERT(can_keep_rows(rows, grads));
  const std::int64_t kept = std::min<std::int64_t>(kMostPacks, num_blocks(rows.columns, W));
  const unsigned most_threads = kept <= kHalfOfPacks ? kMostThreads / 2 : kMostThreads;
  const auto shared_bytes = static_cast<std::size_t>(kept) * sizeof(LogitPack);
  allow_shared_bytes(loss_of_kept_rows, shared_bytes);
  loss_of_kept_rows<<<static_cast<unsigned>(rows.rows), row_threads(kept, 1, most_threads), shared_bytes,
                      context.stream>>>(static_cast<const BFloat*>(rows.logits), rows.stride, rows.columns,
                                        rows.padding, rows.targets, losses, static_cast<BFloat*>(grads.data),
                                        grads.stride, grads.scale, static_cast<int>(kept));
}

}  // namespace tessera::cuda
