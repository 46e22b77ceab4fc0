// UpdateTable: the tensors that one launch of an update rule works on, and that kernel. An update rule is a
// struct with
//   kStates        how many tensors of state it keeps: 0 to 2
//   kWritesWeight  whether it changes the weight, or leaves a direction in the gradient's place
//   kStochastic    whether bf16 that it stores is rounded stochastically; then Factors has a step
//   Factors, factors()     numbers that are the same for all elements, from scalars in device memory
//   apply(factors, weight, grad, state1, state2)   one element, in float
#pragma once

#include "tessera/backend/cuda/limits.h"
#include "tessera/backend/cuda/update_elements.cuh"

namespace tessera::cuda {

// The tensors of a launch, as parameters of the kernel: no memory that a captured graph would have to keep.
// Each is cut into chunks, which are counted through: one pack per thread, so that at any time all blocks
// together work on one stretch of memory.
inline constexpr std::int64_t kUpdateChunk = kThreads * kUpdatePack;

template <class Types>
struct UpdateTable {
  UpdateElements<Types> tensors[kUpdateTensors];
  unsigned first_chunk[kUpdateTensors];
  unsigned num_tensors = 0, num_chunks = 0;

  void add(const UpdateElements<Types>& tensor) {
    tensors[num_tensors] = tensor;
    first_chunk[num_tensors++] = num_chunks;
    num_chunks += num_blocks(tensor.count, kUpdateChunk);
  }
};

template <int N, class Rule, class Types>
__device__ void update_pack(const typename Rule::Factors& factors, const UpdateElements<Types>& e,
                            std::int64_t at) {
  float w[N], g[N], s1[N] = {}, s2[N] = {};
  load_weights<N>(e, at, w);
  load<N>(e.grad + at, g);
  if constexpr (Rule::kStates > 0) load<N>(e.state1 + at, s1);
  if constexpr (Rule::kStates > 1) load<N>(e.state2 + at, s2);
#pragma unroll
  for (int i = 0; i < N; ++i) Rule::apply(factors, w[i], g[i], s1[i], s2[i]);
  constexpr bool kBf16State = std::is_same_v<typename Types::State, BFloat>;
  if constexpr (Rule::kStochastic && kBf16State) round_pack<N>(e, at, factors.step, w, s1, s2);
  if constexpr (Rule::kStates > 0) store_rounded<N>(e.state1 + at, s1);
  if constexpr (Rule::kStates > 1) store_rounded<N>(e.state2 + at, s2);
  if constexpr (Rule::kWritesWeight) {
    store_weights<N>(e, at, w);
  } else {
    store<N>(e.grad + at, g);
  }
}

// Blocks walk through the chunks, so that few of them compute the factors.
template <class Rule, class Types>
__global__ void __launch_bounds__(kThreads)
    update_chunks(const __grid_constant__ UpdateTable<Types> table, const __grid_constant__ Rule rule) {
  __shared__ typename Rule::Factors shared;
  if (threadIdx.x == 0) shared = rule.factors();
  __syncthreads();
  const typename Rule::Factors factors = shared;
  unsigned tensor = 0;
  for (unsigned chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    while (tensor + 1 < table.num_tensors && chunk >= table.first_chunk[tensor + 1]) ++tensor;
    const UpdateElements<Types>& e = table.tensors[tensor];
    const std::int64_t begin = (chunk - table.first_chunk[tensor]) * kUpdateChunk;
    const std::int64_t end = min(e.count, begin + kUpdateChunk);
    const std::int64_t packs_end = e.in_packs ? begin + (end - begin) / kUpdatePack * kUpdatePack : begin;
    for (std::int64_t at = begin + threadIdx.x * kUpdatePack; at < packs_end; at += kThreads * kUpdatePack) {
      update_pack<kUpdatePack, Rule>(factors, e, at);
    }
    for (std::int64_t at = packs_end + threadIdx.x; at < end; at += kThreads) {
      update_pack<1, Rule>(factors, e, at);
    }
  }
}

}  // namespace tessera::cuda
