// What the kernels that update parameters share: element types, which elements are this rank's, and the loop
// over them. An update rule is a struct with
//   kStates        how many tensors of state it keeps: 0 to 2
//   kWritesWeight  whether it changes the weight, or only the gradient
//   Factors, factors()     numbers that are the same for all elements, from scalars in device memory
//   apply(factors, weight, grad, state1, state2)   one element, in float
#pragma once

#include "tessera/backend/cuda/launch.cuh"
#include "tessera/backend/cuda/rank_part.h"

namespace tessera::cuda {

// Calls f with values of the types of: the parameter, its state, and the weight that is updated, which is the
// parameter or its master copy.
template <class F>
void for_update_types(DType param, DType state, bool has_master, F&& f) {
  if (param == DType::f32) {
    return state == DType::bf16 ? f(float{}, BFloat{}, float{}) : f(float{}, float{}, float{});
  }
  TS_ASSERT(param == DType::bf16);
  return has_master ? f(BFloat{}, float{}, float{}) : f(BFloat{}, BFloat{}, BFloat{});
}

// Of this rank's range. `rounded` is the parameter where the weight is its master copy, else null.
template <class T, class S, class W>
struct UpdateElements {
  W* weight;
  float* grad;
  S *state1, *state2;
  T* rounded;
};

// Blocks walk through the elements, so that few of them compute the factors.
template <int N, class Rule, class T, class S, class W>
__global__ void update_packs(Rule rule, UpdateElements<T, S, W> e, std::int64_t num_elems) {
  __shared__ typename Rule::Factors shared;
  if (threadIdx.x == 0) shared = rule.factors();
  __syncthreads();
  const typename Rule::Factors factors = shared;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * N;
  for (std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N; at < num_elems;
       at += step) {
    float w[N], g[N], s1[N] = {}, s2[N] = {};
    load<N>(e.weight + at, w);
    load<N>(e.grad + at, g);
    if constexpr (Rule::kStates > 0) load<N>(e.state1 + at, s1);
    if constexpr (Rule::kStates > 1) load<N>(e.state2 + at, s2);
#pragma unroll
    for (int i = 0; i < N; ++i) Rule::apply(factors, w[i], g[i], s1[i], s2[i]);
    store<N>(e.grad + at, g);
    if constexpr (Rule::kStates > 0) store<N>(e.state1 + at, s1);
    if constexpr (Rule::kStates > 1) store<N>(e.state2 + at, s2);
    if constexpr (Rule::kWritesWeight) {
      store<N>(e.weight + at, w);
      if constexpr (!std::is_same_v<T, W>) store<N>(e.rounded + at, w);
    }
  }
}

// Where an update's operands lie: parameter and gradient whole, state and master copy as this rank's range.
struct UpdateTensors {
  const TensorView& param;
  const TensorView& grad;
  const TensorView* state1 = nullptr;
  const TensorView* state2 = nullptr;
  const TensorView* master = nullptr;
};

// The rule on this rank's range; a rule that changes the weight leaves the gradient outside of it cleared.
template <class Rule>
void run_update(const KernelCall& call, Context& context, const UpdateTensors& t, const FlatRange& range,
                const Rule& rule) {
  const std::int64_t num_elems = t.param.num_elems();
  const ElementRange own = own_range(call, range, num_elems);
  auto* const grad = data<float>(t.grad);
  const auto clear = [&](float* from, std::int64_t count) {
    if (!Rule::kWritesWeight || count == 0) return;
    check_cuda(cudaMemsetAsync(from, 0, static_cast<std::size_t>(count) * sizeof(float), context.stream),
               "clear a gradient");
  };
  clear(grad, own.begin);
  clear(grad + own.end, num_elems - own.end);
  if (own.size() == 0) return;
  const DType state = t.state1 ? t.state1->dtype : t.param.dtype;
  for_update_types(t.param.dtype, state, t.master != nullptr, [&]<class T, class S, class W>(T, S, W) {
    const UpdateElements<T, S, W> e{t.master ? data<W>(*t.master) : static_cast<W*>(t.param.data) + own.begin,
                                    grad + own.begin, t.state1 ? data<S>(*t.state1) : nullptr,
                                    t.state2 ? data<S>(*t.state2) : nullptr, data<T>(t.param) + own.begin};
    const bool fit = packs_fit<float>(own.size(), e.grad) &&
                     reinterpret_cast<std::uintptr_t>(e.weight) % (4 * sizeof(W)) == 0 &&
                     reinterpret_cast<std::uintptr_t>(e.rounded) % (4 * sizeof(T)) == 0;
    with_packs<float>(fit, [&]<class Width>(Width) {
      constexpr int N = Width::value;
      constexpr unsigned kMostBlocks = 132 * 8;
      const unsigned blocks = std::min(kMostBlocks, num_blocks(own.size(), N * kThreads));
      update_packs<N><<<blocks, kThreads, 0, context.stream>>>(rule, e, own.size());
    });
  });
}

}  // namespace tessera::cuda
