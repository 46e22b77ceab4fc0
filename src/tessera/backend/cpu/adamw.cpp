#include <cmath>
#include <utility>

#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/scalar.h"
#include "tessera/backend/cpu/update_types.h"
#include "tessera/base/stochastic_rounding.h"
#include "tessera/ops/optimizer_ops.h"

namespace tessera::cpu {
namespace {

// What an update multiplies with, the same for all elements: Loshchilov and Hutter (2019). Computed in
// double, since 1 - beta2^step cancels in float. The two forms differ in which of the decays is 1 and in eps
// alone, so that one loop, exact where it multiplies by 1, does for both.
template <class A>
struct AdamWFactors {
  A decay_before, decay_after;
  A clip, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, deviation_correction, eps;

  AdamWFactors(const AdamWAttrs& attrs, double learning_rate, double step, double clip_factor)
      : decay_before(static_cast<A>(1.0 - learning_rate * attrs.weight_decay)),
        decay_after(1),
        clip(static_cast<A>(clip_factor)),
        beta1(static_cast<A>(attrs.beta1)),
        one_minus_beta1(static_cast<A>(1.0 - attrs.beta1)),
        beta2(static_cast<A>(attrs.beta2)),
        one_minus_beta2(static_cast<A>(1.0 - attrs.beta2)),
        step_size(static_cast<A>(learning_rate / (1.0 - std::pow(attrs.beta1, step)))),
        deviation_correction(static_cast<A>(std::sqrt(1.0 - std::pow(attrs.beta2, step)))),
        eps(static_cast<A>(attrs.eps)) {
    if (attrs.form == AdamWForm::torch) return;
    std::swap(decay_before, decay_after);
    eps = static_cast<A>(attrs.eps / std::sqrt(1.0 - std::pow(attrs.beta2, step)));
  }
};

// What is updated: this rank's range of a parameter's weights and moments.
template <class W, class S, class G>
struct AdamWTensors {
  using A = Accumulate<typename W::Value>;
  W weight;
  const G* grad;
  S *moment1, *moment2;
};

template <class A>
struct Updated {
  A weight, moment1, moment2;
};

template <class W, class S, class G, class A>
Updated<A> updated(const AdamWTensors<W, S, G>& t, const AdamWFactors<A>& f, std::int64_t i) {
  const A g = widen(t.grad[i]) * f.clip;
  const A m = f.beta1 * widen(t.moment1[i]) + f.one_minus_beta1 * g;
  const A v = f.beta2 * widen(t.moment2[i]) + f.one_minus_beta2 * g * g;
  const A stepped =
      t.weight.get(i) * f.decay_before - f.step_size * (m / (std::sqrt(v) / f.deviation_correction + f.eps));
  return {stepped * f.decay_after, m, v};
}

template <class W, class S, class G, class A>
void update_block(const AdamWTensors<W, S, G>& tensors, const AdamWFactors<A>& by, std::int64_t begin,
                  std::int64_t end) {
  const AdamWTensors<W, S, G> t = tensors;  // copies that no store can change, so they stay in registers
  const AdamWFactors<A> f = by;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const Updated<A> u = updated(t, f, i);
    put(t.moment1[i], u.moment1);
    put(t.moment2[i], u.moment2);
    t.weight.set(i, u.weight);
  }
}

// Which random bits round the elements of a range.
struct RoundingStream {
  std::uint64_t parameter_hash, step;
  std::int64_t first;  // the range's first element in the parameter
};

void put_stochastically(Bf16& stored, float value, std::uint32_t random) {
  stored.bits = round_stochastically(std::bit_cast<std::uint32_t>(value), random);
}

// With bf16 moments.
template <class W, class G>
void update_block_stochastically(const AdamWTensors<W, Bf16, G>& t, const AdamWFactors<float>& f,
                                 const RoundingStream& stream, std::int64_t begin, std::int64_t end) {
  PhiloxBlock words{};
  for (std::int64_t i = begin; i < end; ++i) {
    const auto element = static_cast<std::uint64_t>(stream.first + i);
    if (element % 4 == 0 || i == begin)
      words = rounding_words(stream.parameter_hash, stream.step, element / 4);
    const std::uint32_t word = words[element % 4];
    const Updated<float> u = updated(t, f, i);
    put_stochastically(t.moment1[i], u.moment1, moment1_bits(word));
    put_stochastically(t.moment2[i], u.moment2, moment2_bits(word));
    if constexpr (std::is_same_v<W, PlainWeights<Bf16>>) {
      put_stochastically(t.weight.at[i], u.weight, weight_bits(word));
    } else {
      t.weight.set(i, u.weight);
    }
  }
}

}  // namespace

void adamw(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  for (std::size_t i = 1; i < 3; ++i) TS_ASSERT(call.inputs[i + 1].data == call.outputs[i].data);
  const auto& attrs = call.attrs->as<AdamWAttrs>();
  const double learning_rate = scalar(call.inputs[4]), step = scalar(call.inputs[5]);
  const double clip = scalar(call.inputs[6]);
  const TensorView* const low = call.outputs.size() == 4 ? &call.outputs[3] : nullptr;
  const ElementRange own = own_range(call, attrs.range, call.inputs[0].num_elems());
  const RoundingStream stream{attrs.parameter_hash, static_cast<std::uint64_t>(step), own.begin};
  for_update_types(
      call.outputs[0], low, own, call.inputs[2].dtype, call.inputs[1].dtype,
      [&]<class W, class S, class G>(W weight, S, G) {
        const AdamWFactors<Accumulate<typename W::Value>> factors(attrs, learning_rate, step, clip);
        const AdamWTensors<W, S, G> tensors{weight, call.inputs[1].as<G>().data() + own.begin,
                                            call.outputs[1].as<S>().data(), call.outputs[2].as<S>().data()};
        for_each_elem_block(context.pool, own.size(), [&](std::int64_t begin, std::int64_t end) {
          if constexpr (std::is_same_v<S, Bf16>) {
            update_block_stochastically(tensors, factors, stream, begin, end);
          } else {
            update_block(tensors, factors, begin, end);
          }
        });
      });
}

}  // namespace tessera::cpu
