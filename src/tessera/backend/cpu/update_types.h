// What the kernels that update parameters share: how a weight is stored, and which elements are this rank's.
#pragma once

#include "tessera/backend/cpu/element.h"
#include "tessera/base/float_halves.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cpu {

// The weights of this rank's range, stored as they are.
template <class T>
struct PlainWeights {
  using Value = T;
  T* at;

  Accumulate<T> get(std::int64_t i) const { return widen(at[i]); }
  void set(std::int64_t i, Accumulate<T> weight) const { put(at[i], weight); }
};

// An fp32 weight, stored in two halves: the parameter and its low half.
struct SplitWeights {
  using Value = float;
  Bf16* rounded;
  std::int16_t* low;

  float get(std::int64_t i) const { return std::bit_cast<float>(join_halves(rounded[i].bits, low[i])); }
  void set(std::int64_t i, float weight) const {
    put(rounded[i], weight);
    low[i] = low_half(std::bit_cast<std::uint32_t>(weight));
  }
};

// Calls f with the weights of a parameter in this rank's range and values of the types of its state and of
// its gradient. `low` is null where the parameter is all there is of a weight.
template <class F>
void for_update_types(const TensorView& param, const TensorView* low, const ElementRange& own, DType state,
                      DType grad, F&& f) {
  const auto with_gradient = [&]<class W, class S>(W weights, S) {
    return grad == DType::bf16 ? f(weights, S{}, Bf16{}) : f(weights, S{}, float{});
  };
  const auto plain = [&]<class T>(T) { return PlainWeights<T>{param.as<T>().data() + own.begin}; };
  switch (param.dtype) {
    case DType::f64:
      return f(plain(double{}), double{}, double{});
    case DType::f32:
      return state == DType::bf16 ? f(plain(float{}), Bf16{}, float{}) : f(plain(float{}), float{}, float{});
    case DType::bf16:
      if (low == nullptr) return with_gradient(plain(Bf16{}), Bf16{});
      return with_gradient(SplitWeights{param.as<Bf16>().data() + own.begin, low->as<std::int16_t>().data()},
                           float{});
    case DType::i32:
    case DType::i16:
      break;
  }
  TS_ASSERT(!"floating type");
}

}  // namespace tessera::cpu
