// UpdateTable: the tensors that one launch of an update rule works on, and that kernel. An update rule is a
// struct with
//   kStates        how many tensors of state it keeps: 0 to 2
//   kWritesWeight  whether it changes the weight, or leaves a direction in the gradient's place
//   kStochastic    whether bf16 that it stores is rounded stochastically; then Factors has a step
//   Factors, factors()     numbers that are the same for all elements, from scalars in device memory
//   apply(factors, weight, grad, state1, state2)   one element, in float
#pragma once

#include "tessera/backend/cuda/launch.cuh"
#include "tessera/base/float_halves.h"
#include "tessera/base/stochastic_rounding.h"

namespace tessera::cuda {

// How the tensors of a launch are stored: T parameter, S state, G gradient. Split: the parameter is the
// rounding of an fp32 weight, whose low halves are there too (base/float_halves.h).
template <class T, class S, class G, bool kSplitWeight>
struct UpdateTypes {
  using Param = T;
  using State = S;
  using Grad = G;
  static constexpr bool kSplit = kSplitWeight;
};

// Of this rank's range.
template <class Types>
struct UpdateElements {
  typename Types::Param* param;
  std::int16_t* low;
  typename Types::Grad* grad;
  typename Types::State *state1, *state2;
  std::int64_t count;
  std::int64_t first;            // of the range in the parameter
  std::uint64_t parameter_hash;  // for random bits
  bool in_packs;                 // of kUpdatePack
};

// The tensors of a launch, as parameters of the kernel: no memory that a captured graph would have to keep.
// Each is cut into chunks, which are counted through: one pack per thread, so that at any time all blocks
// together work on one stretch of memory.
inline constexpr unsigned kUpdateTensors = 64;
inline constexpr int kUpdatePack = 4;
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

template <int N, class Types>
__device__ void load_weights(const UpdateElements<Types>& e, std::int64_t at, float (&w)[N]) {
  load<N>(e.param + at, w);
  if constexpr (Types::kSplit) {
    const auto low = *reinterpret_cast<const Pack<std::int16_t, N>*>(e.low + at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const auto rounded = static_cast<std::uint16_t>(__float_as_uint(w[i]) >> 16);
      w[i] = __uint_as_float(join_halves(rounded, low.elems[i]));
    }
  }
}

template <int N, class Types>
__device__ void store_weights(const UpdateElements<Types>& e, std::int64_t at, const float (&w)[N]) {
  store<N>(e.param + at, w);
  if constexpr (Types::kSplit) {
    Pack<std::int16_t, N> low;
#pragma unroll
    for (int i = 0; i < N; ++i) low.elems[i] = low_half(__float_as_uint(w[i]));
    *reinterpret_cast<Pack<std::int16_t, N>*>(e.low + at) = low;
  }
}

// A bf16 near the float, so that storing it rounds nothing more.
__device__ inline float rounded_stochastically(float value, std::uint32_t random) {
  const std::uint16_t rounded = round_stochastically(__float_as_uint(value), random);
  return __uint_as_float(static_cast<std::uint32_t>(rounded) << 16);
}

// The weight and moments of a pack of elements, where they are bf16.
template <int N, class Types>
__device__ void round_pack(const UpdateElements<Types>& e, std::int64_t at, std::uint64_t step, float (&w)[N],
                           float (&s1)[N], float (&s2)[N]) {
  constexpr bool kBf16Weight = std::is_same_v<typename Types::Param, BFloat> && !Types::kSplit;
  PhiloxBlock words{};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const auto element = static_cast<std::uint64_t>(e.first + at + i);
    const auto in_group = static_cast<unsigned>(element % 4);
    if (i == 0 || in_group == 0) words = rounding_words(e.parameter_hash, step, element / 4);
    const std::uint32_t word = in_group < 2 ? words[in_group == 0 ? 0 : 1] : words[in_group == 2 ? 2 : 3];
    if constexpr (kBf16Weight) w[i] = rounded_stochastically(w[i], weight_bits(word));
    s1[i] = rounded_stochastically(s1[i], moment1_bits(word));
    s2[i] = rounded_stochastically(s2[i], moment2_bits(word));
  }
}

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
  if constexpr (Rule::kStates > 0) store<N>(e.state1 + at, s1);
  if constexpr (Rule::kStates > 1) store<N>(e.state2 + at, s2);
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
