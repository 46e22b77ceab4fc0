// lamb_direction, lamb.
#include "tessera/ops/lamb.h"

#include <cmath>

#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/backend/cpu/scalar.h"
#include "tessera/backend/cpu/update_types.h"

namespace tessera::cpu {
namespace {

// The same for all elements; computed in double, since 1 - beta2^step cancels in float.
template <class A>
struct DirectionFactors {
  A decay, clip, beta1, one_minus_beta1, beta2, one_minus_beta2, mean_correction, deviation_correction, eps;

  DirectionFactors(const LambDirectionAttrs& attrs, double step, double clip_factor)
      : decay(static_cast<A>(attrs.weight_decay)),
        clip(static_cast<A>(clip_factor)),
        beta1(static_cast<A>(attrs.beta1)),
        one_minus_beta1(static_cast<A>(1.0 - attrs.beta1)),
        beta2(static_cast<A>(attrs.beta2)),
        one_minus_beta2(static_cast<A>(1.0 - attrs.beta2)),
        mean_correction(static_cast<A>(1.0 / (1.0 - std::pow(attrs.beta1, step)))),
        deviation_correction(static_cast<A>(std::sqrt(1.0 - std::pow(attrs.beta2, step)))),
        eps(static_cast<A>(attrs.eps)) {}
};

template <class S, class W>
void direction_block(const DirectionFactors<Accumulate<typename W::Value>>& by, W weight,
                     Accumulate<typename W::Value>* grad, S* moment1, S* moment2, std::int64_t begin,
                     std::int64_t end) {
  using A = Accumulate<typename W::Value>;
  const DirectionFactors<A> f = by;  // a copy that no store can change, so it stays in registers
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const A g = grad[i] * f.clip;
    const A m = f.beta1 * widen(moment1[i]) + f.one_minus_beta1 * g;
    const A v = f.beta2 * widen(moment2[i]) + f.one_minus_beta2 * g * g;
    const A adam = f.mean_correction * m / (std::sqrt(v) / f.deviation_correction + f.eps);
    put(moment1[i], m);
    put(moment2[i], v);
    grad[i] = adam + f.decay * weight.get(i);
  }
}

// You et al. (2020), with the identity for phi: a norm of zero leaves the direction as it is.
double trust_ratio(const LambAttrs& attrs, const TensorView& squares) {
  const double weight = std::sqrt(scalar(squares, attrs.index));
  const double direction = std::sqrt(scalar(squares, attrs.index + 1));
  if (!attrs.adapt || weight == 0 || direction == 0) return 1.0;
  const double ratio = weight / direction;
  return attrs.trust_clip ? std::min(1.0, ratio) : ratio;
}

}  // namespace

void lamb_direction(const KernelCall& call, Context& context) {
  for (std::size_t i = 0; i < 3; ++i) TS_ASSERT(call.inputs[i + 1].data == call.outputs[i].data);
  const auto& attrs = call.attrs->as<LambDirectionAttrs>();
  const double step = scalar(call.inputs[4]), clip = scalar(call.inputs[5]);
  const TensorView* const low = call.inputs.size() == 7 ? &call.inputs[6] : nullptr;
  const ElementRange own = own_range(call, attrs.range, call.inputs[0].num_elems());
  for_update_types(call.inputs[0], low, own, call.inputs[2].dtype, call.inputs[1].dtype,
                   [&]<class W, class S, class G>(W weight, S, G) {
                     using A = Accumulate<typename W::Value>;
                     const DirectionFactors<A> factors(attrs, step, clip);
                     A* const grad = call.outputs[0].as<A>().data() + own.begin;
                     S* const moment1 = call.outputs[1].as<S>().data();
                     S* const moment2 = call.outputs[2].as<S>().data();
                     for_each_elem_block(context.pool, own.size(), [=](std::int64_t begin, std::int64_t end) {
                       direction_block(factors, weight, grad, moment1, moment2, begin, end);
                     });
                   });
}

void lamb(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  const auto& attrs = call.attrs->as<LambAttrs>();
  const double step_size = scalar(call.inputs[2]) * trust_ratio(attrs, call.inputs[3]);
  const TensorView* const low = call.outputs.size() == 2 ? &call.outputs[1] : nullptr;
  const ElementRange own = own_range(call, attrs.range, call.inputs[0].num_elems());
  const DType no_state = call.inputs[0].dtype;
  for_update_types(call.outputs[0], low, own, no_state, call.inputs[1].dtype,
                   [&]<class W, class S, class G>(W weight, S, G) {
                     using A = Accumulate<typename W::Value>;
                     const A by = static_cast<A>(step_size);
                     const A* const direction = call.inputs[1].as<A>().data() + own.begin;
                     for_each_elem_block(context.pool, own.size(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                       for (std::int64_t i = begin; i < end; ++i)
                         weight.set(i, weight.get(i) - by * direction[i]);
                     });
                   });
}

}  // namespace tessera::cpu
