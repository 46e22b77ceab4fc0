// sum_scalars, stack_scalars, clip_factor.
#include <cmath>

#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/limits.h"
#include "tessera/backend/cuda/reduce.cuh"
#include "tessera/ops/optimizer_ops.h"

namespace tessera::cuda {
namespace {

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

// f(first of them, some of the call's scalars), as many as fit in a launch at a time.
template <class F>
void for_scalars(const KernelCall& call, F&& f) {
  for (std::size_t at = 0; at < call.inputs.size(); at += kScalars) {
    Scalars scalars{};
    scalars.count = static_cast<unsigned>(std::min<std::size_t>(kScalars, call.inputs.size() - at));
    for (std::size_t i = 0; i < scalars.count; ++i) scalars.at[i] = data<float>(call.inputs[at + i]);
    f(at, scalars);
  }
}

}  // namespace

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
