// sum_squares, sum_scalars, stack_scalars, clip_factor.
#include <array>
#include <cmath>

#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/rank_part.h"
#include "tessera/backend/cuda/reduce.cuh"
#include "tessera/ops/optimizer_ops.h"

namespace tessera::cuda {
namespace {

constexpr unsigned kSquareParts = 512;

// parts[block] = the sum of squares of every gridDim-th stretch of x, in double. Packs of W, and the elements
// behind the last whole one.
template <int W, class T>
__global__ void square_parts(const T* x, std::int64_t num_elems, double* parts) {
  double sum = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x, packs = num_elems / W;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (std::int64_t p = first; p < packs; p += step) {
    float values[W];
    load<W>(x + p * W, values);
#pragma unroll
    for (int i = 0; i < W; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  if (packs * W + first < num_elems) {
    const double value = widen(x[packs * W + first]);
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// The parts of one stretch, added to those of the stretches before it.
__global__ void add_parts(const double* parts, bool first, double* total, float* result) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < kSquareParts; i += blockDim.x) sum += parts[i];
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  *total = first ? sum : *total + sum;
  *result = static_cast<float>(*total);
}

// As many scalars as fit in a launch.
constexpr std::size_t kScalars = 256;
struct Scalars {
  const float* at[kScalars];
  unsigned count;
};
__global__ void add_scalars(Scalars scalars, bool first, double* result) {
  const double own = threadIdx.x < scalars.count ? *scalars.at[threadIdx.x] : 0.0f;
  const double sum = block_sum(own);
  if (threadIdx.x == 0) *result = first ? sum : *result + sum;
}

// As torch.nn.utils.clip_grad_norm_, whose 1e-6 keeps a norm of zero harmless.
template <class T>
__global__ void clip(const T* sum_of_squares, double max_norm, float* norm_to, float* factor_to) {
  const double norm = sqrt(static_cast<double>(*sum_of_squares));
  *norm_to = static_cast<float>(norm);
  *factor_to = static_cast<float>(max_norm > 0 ? fmin(1.0, max_norm / (norm + 1e-6)) : 1.0);
}

// As many scalars as fit in a launch, side by side.
__global__ void stack(Scalars scalars, float* to) {
  for (unsigned i = threadIdx.x; i < scalars.count; i += blockDim.x) to[i] = *scalars.at[i];
}

}  // namespace

std::int64_t sum_squares_workspace_bytes() {
  return (kSquareParts + 1) * static_cast<std::int64_t>(sizeof(double));
}

namespace {

// The tensor lies there whole or, with fewer elements than `num_elems`, as this rank's range alone.
void sum_counted_squares(const KernelCall& call, Context& context, const TensorView& tensor,
                         std::int64_t num_elems, float* result) {
  const auto& attrs = call.attrs->as<SumSquaresAttrs>();
  const ElementRange counted = counted_range(call, attrs.range, num_elems);
  const std::int64_t stored_from =
      tensor.num_elems() < num_elems ? own_range(call, attrs.range, num_elems).begin : 0;
  auto* const parts = workspace_at<double>(call, 0, kSquareParts + 1);
  for_dtype(tensor.dtype, [&]<class T>(T) {
    bool first = true;
    const auto add_stretch = [&](std::int64_t begin, std::int64_t end) {
      const T* x = data<T>(tensor) + (begin - stored_from);
      with_packs<T>(packs_fit<T>(0, x), [&]<class Width>(Width) {
        square_parts<Width::value><<<kSquareParts, kThreads, 0, context.stream>>>(x, end - begin, parts);
      });
      add_parts<<<1, kThreads, 0, context.stream>>>(parts, first, parts + kSquareParts, result);
      first = false;
    };
    if (!attrs.copies.is_shard()) return add_stretch(counted.begin, counted.end);
    const int rank = coordinate(call, attrs.copies_axis);
    for_each_shard_run(attrs.whole, attrs.copies, attrs.copies_ranks, rank, [&](const ShardRun& run) {
      const std::int64_t begin = std::max(counted.begin, run.local_offset);
      const std::int64_t end = std::min(counted.end, run.local_offset + run.count);
      if (run.first_copy && begin < end) add_stretch(begin, end);
    });
    if (first) add_stretch(stored_from, stored_from);
  });
}

// f(first of them, some of the call's scalars), as many as fit in a launch at a time.
template <class F>
void for_scalars(const KernelCall& call, F&& f) {
  for (std::size_t at = 0; at < call.inputs.size(); at += kScalars) {
    Scalars scalars{};
    scalars.count = static_cast<unsigned>(std::min(kScalars, call.inputs.size() - at));
    for (std::size_t i = 0; i < scalars.count; ++i) scalars.at[i] = data<float>(call.inputs[at + i]);
    f(at, scalars);
  }
}

}  // namespace

void sum_squares(const KernelCall& call, Context& context) {
  std::int64_t num_elems = 0;
  for (const TensorView& input : call.inputs) num_elems = std::max(num_elems, input.num_elems());
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    sum_counted_squares(call, context, call.inputs[i], num_elems, data<float>(call.outputs[i]));
  }
}

void sum_scalars(const KernelCall& call, Context& context) {
  for_scalars(call, [&](std::size_t at, const Scalars& scalars) {
    add_scalars<<<1, kScalars, 0, context.stream>>>(scalars, at == 0, data<double>(call.outputs[0]));
  });
}

void stack_scalars(const KernelCall& call, Context& context) {
  for_scalars(call, [&](std::size_t at, const Scalars& scalars) {
    stack<<<1, kThreads, 0, context.stream>>>(scalars, data<float>(call.outputs[0]) + at);
  });
}

void clip_factor(const KernelCall& call, Context& context) {
  const double max_norm = call.attrs->as<ClipFactorAttrs>().max_norm;
  const auto launch = [&]<class T>(const T* sum_of_squares) {
    clip<<<1, 1, 0, context.stream>>>(sum_of_squares, max_norm, data<float>(call.outputs[0]),
                                      data<float>(call.outputs[1]));
  };
  call.inputs[0].dtype == DType::f64 ? launch(data<double>(call.inputs[0]))
                                     : launch(data<float>(call.inputs[0]));
}

}  // namespace tessera::cuda
