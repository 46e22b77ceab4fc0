// sum_squares, sum_scalars, clip_factor, adamw.
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

// parts[block] = the sum of squares of every gridDim-th stretch of x, in double.
template <class T>
__global__ void square_parts(const T* x, std::int64_t num_elems, double* parts) {
  double sum = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < num_elems; i += step) {
    const double value = widen(x[i]);
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
__global__ void add_scalars(Scalars scalars, bool first, double* total, float* result) {
  double sum = first ? 0.0 : *total;
  for (unsigned i = 0; i < scalars.count; ++i) sum += *scalars.at[i];
  *total = sum;
  *result = static_cast<float>(sum);
}

// As torch.nn.utils.clip_grad_norm_, whose 1e-6 keeps a norm of zero harmless.
__global__ void clip(const float* sum_of_squares, double max_norm, float* norm_to, float* factor_to) {
  const double norm = sqrt(static_cast<double>(*sum_of_squares));
  *norm_to = static_cast<float>(norm);
  *factor_to = static_cast<float>(max_norm > 0 ? fmin(1.0, max_norm / (norm + 1e-6)) : 1.0);
}

// What an update multiplies with, the same for all elements: Loshchilov and Hutter (2019), in the order
// of torch.optim.AdamW. Computed in double, since 1 - beta2^step cancels in float.
struct AdamWFactors {
  float decay, clip, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, deviation_correction, eps;
};
struct AdamWNumbers {
  double beta1, beta2, eps, weight_decay;
};
__device__ AdamWFactors adamw_factors(const AdamWNumbers& n, double learning_rate, double step, float clip) {
  return {static_cast<float>(1.0 - learning_rate * n.weight_decay),
          clip,
          static_cast<float>(n.beta1),
          static_cast<float>(1.0 - n.beta1),
          static_cast<float>(n.beta2),
          static_cast<float>(1.0 - n.beta2),
          static_cast<float>(learning_rate / (1.0 - pow(n.beta1, step))),
          static_cast<float>(sqrt(1.0 - pow(n.beta2, step))),
          static_cast<float>(n.eps)};
}

struct AdamWScalars {
  const float* learning_rate;
  const std::int32_t* step;
  const float* clip;
};
struct AdamWState {
  float *weight, *grad, *moment1, *moment2;  // under bf16 the weight is the master copy
};

// Updates weights and moments and clears the gradient; `rounded` is the parameter if that is bf16, else null.
// Blocks walk through the elements, so that few of them compute the factors.
template <int W>
__global__ void adamw_packs(AdamWNumbers numbers, AdamWScalars scalars, AdamWState s, BFloat* rounded,
                            std::int64_t num_elems) {
  __shared__ AdamWFactors shared;
  if (threadIdx.x == 0) shared = adamw_factors(numbers, *scalars.learning_rate, *scalars.step, *scalars.clip);
  __syncthreads();
  const AdamWFactors f = shared;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * W;
  for (std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W; at < num_elems;
       at += step) {
    float w[W], g[W], m[W], v[W];
    load<W>(s.weight + at, w);
    load<W>(s.grad + at, g);
    load<W>(s.moment1 + at, m);
    load<W>(s.moment2 + at, v);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float grad = g[i] * f.clip;
      m[i] = f.beta1 * m[i] + f.one_minus_beta1 * grad;
      v[i] = f.beta2 * v[i] + f.one_minus_beta2 * grad * grad;
      w[i] = w[i] * f.decay - f.step_size * (m[i] / (sqrtf(v[i]) / f.deviation_correction + f.eps));
      g[i] = 0;
    }
    store<W>(s.weight + at, w);
    store<W>(s.grad + at, g);
    store<W>(s.moment1 + at, m);
    store<W>(s.moment2 + at, v);
    if (rounded != nullptr) store<W>(rounded + at, w);
  }
}

void clear(Context& context, float* from, std::int64_t num_elems) {
  if (num_elems == 0) return;
  check_cuda(cudaMemsetAsync(from, 0, static_cast<std::size_t>(num_elems) * sizeof(float), context.stream),
             "clear a gradient");
}

}  // namespace

std::int64_t sum_squares_workspace_bytes() {
  return (kSquareParts + 1) * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t sum_scalars_workspace_bytes() {
  return static_cast<std::int64_t>(sizeof(double));
}

void sum_squares(const KernelCall& call, Context& context) {
  const auto& attrs = call.attrs->as<SumSquaresAttrs>();
  const ElementRange own = own_range(call, attrs.range, call.inputs[0].num_elems());
  auto* const parts = workspace_at<double>(call, 0, kSquareParts + 1);
  auto* const result = data<float>(call.outputs[0]);
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    const T* x = data<T>(call.inputs[0]);
    bool first = true;
    const auto add_stretch = [&](std::int64_t begin, std::int64_t end) {
      square_parts<<<kSquareParts, kThreads, 0, context.stream>>>(x + begin, end - begin, parts);
      add_parts<<<1, kThreads, 0, context.stream>>>(parts, first, parts + kSquareParts, result);
      first = false;
    };
    if (!attrs.copies.is_shard()) return add_stretch(own.begin, own.end);
    const int rank = coordinate(call, attrs.copies_axis);
    for_each_shard_run(attrs.whole, attrs.copies, attrs.copies_ranks, rank, [&](const ShardRun& run) {
      const std::int64_t begin = std::max(own.begin, run.local_offset);
      const std::int64_t end = std::min(own.end, run.local_offset + run.count);
      if (run.first_copy && begin < end) add_stretch(begin, end);
    });
    if (first) add_stretch(0, 0);
  });
}

void sum_scalars(const KernelCall& call, Context& context) {
  auto* const total = workspace_at<double>(call, 0, 1);
  for (std::size_t at = 0; at < call.inputs.size(); at += kScalars) {
    Scalars scalars{};
    scalars.count = static_cast<unsigned>(std::min(kScalars, call.inputs.size() - at));
    for (std::size_t i = 0; i < scalars.count; ++i) scalars.at[i] = data<float>(call.inputs[at + i]);
    add_scalars<<<1, 1, 0, context.stream>>>(scalars, at == 0, total, data<float>(call.outputs[0]));
  }
}

void clip_factor(const KernelCall& call, Context& context) {
  clip<<<1, 1, 0, context.stream>>>(data<float>(call.inputs[0]), call.attrs->as<ClipFactorAttrs>().max_norm,
                                    data<float>(call.outputs[0]), data<float>(call.outputs[1]));
}

// Parameter and gradient lie whole, the state is this rank's range of them.
void adamw(const KernelCall& call, Context& context) {
  for (std::size_t i = 0; i < 4; ++i) TS_ASSERT(call.inputs[i].data == call.outputs[i].data);
  const auto& attrs = call.attrs->as<AdamWAttrs>();
  const AdamWNumbers numbers{attrs.beta1, attrs.beta2, attrs.eps, attrs.weight_decay};
  const AdamWScalars scalars{data<float>(call.inputs[4]), data<std::int32_t>(call.inputs[5]),
                             data<float>(call.inputs[6])};
  const bool has_master = call.outputs.size() == 5;
  const std::int64_t num_elems = call.inputs[0].num_elems();
  const ElementRange own = own_range(call, attrs.range, num_elems);
  auto* const grad = data<float>(call.outputs[1]);
  const AdamWState state{has_master ? data<float>(call.outputs[4]) : data<float>(call.outputs[0]) + own.begin,
                         grad + own.begin, data<float>(call.outputs[2]), data<float>(call.outputs[3])};
  BFloat* const rounded = has_master ? data<BFloat>(call.outputs[0]) + own.begin : nullptr;
  clear(context, grad, own.begin);
  clear(context, grad + own.end, num_elems - own.end);
  if (own.size() == 0) return;
  constexpr unsigned kMostBlocks = 132 * 8;
  with_packs<float>(packs_fit<float>(own.size(), state.weight, state.grad, state.moment1, state.moment2) &&
                        reinterpret_cast<std::uintptr_t>(rounded) % 8 == 0,
                    [&]<class Width>(Width) {
                      constexpr int W = Width::value;
                      const unsigned blocks = std::min(kMostBlocks, num_blocks(own.size(), W * kThreads));
                      adamw_packs<W><<<blocks, kThreads, 0, context.stream>>>(numbers, scalars, state,
                                                                              rounded, own.size());
                    });
}

}  // namespace tessera::cuda
