// UpdateElements: a tensor's elements as an update rule sees them, and how its weights are read, stored and
// rounded, a pack at a time.
#pragma once

#include "tessera/backend/cuda/instructions.cuh"
#include "tessera/backend/cuda/launch.cuh"
#include "tessera/base/float_halves.h"
#include "tessera/base/stochastic_rounding.h"

namespace tessera::cuda {

inline constexpr int kUpdatePack = 4;

// How tensors are stored: T parameter, S state, G gradient. Split: the parameter is the rounding of an fp32
// weight, whose low halves are there too (base/float_halves.h).
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

// By one instruction: of an assignment of four 16-bit elements the compiler makes four in these kernels.
template <int N, class T>
__device__ void store_pack(T* to, const Pack<T, N>& pack) {
  if constexpr (sizeof(pack) == sizeof(uint2)) {
    store_words(to, __builtin_bit_cast(uint2, pack));
  } else {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  }
}

template <int N, class T>
__device__ void store_rounded(T* to, const float (&from)[N]) {
  Pack<T, N> rounded;
#pragma unroll
  for (int i = 0; i < N; ++i) rounded.elems[i] = narrow<T>(from[i]);
  store_pack<N>(to, rounded);
}

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
  store_rounded<N>(e.param + at, w);
  if constexpr (Types::kSplit) {
    Pack<std::int16_t, N> low;
#pragma unroll
    for (int i = 0; i < N; ++i) low.elems[i] = low_half(__float_as_uint(w[i]));
    store_pack<N>(e.low + at, low);
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

}  // namespace tessera::cuda
