// lamb_direction, lamb.
#include "tessera/backend/cuda/update.cuh"
#include "tessera/ops/lamb.h"

namespace tessera::cuda {
namespace {

// Leaves Adam's direction plus decay in the gradient's place.
struct Direction {
  static constexpr int kStates = 2;
  static constexpr bool kWritesWeight = false, kStochastic = false;
  struct Factors {
    float decay, clip, beta1, one_minus_beta1, beta2, one_minus_beta2, mean_correction, deviation_correction,
        eps;
  };

  double beta1, beta2, eps, weight_decay;
  const std::int32_t* step;
  const float* clip;

  __device__ Factors factors() const {
    const double steps = *step;
    return {static_cast<float>(weight_decay),
            *clip,
            static_cast<float>(beta1),
            static_cast<float>(1.0 - beta1),
            static_cast<float>(beta2),
            static_cast<float>(1.0 - beta2),
            static_cast<float>(1.0 / (1.0 - pow(beta1, steps))),
            static_cast<float>(sqrt(1.0 - pow(beta2, steps))),
            static_cast<float>(eps)};
  }
  __device__ static void apply(const Factors& f, float& w, float& grad, float& m, float& v) {
    const float g = grad * f.clip;
    m = f.beta1 * m + f.one_minus_beta1 * g;
    v = f.beta2 * v + f.one_minus_beta2 * g * g;
    grad = f.mean_correction * m / (sqrtf(v) / f.deviation_correction + f.eps) + f.decay * w;
  }
};

// The step along the direction, scaled by the trust ratio (You et al., 2020, with the identity for phi): a
// norm of zero leaves the direction as it is.
struct Lamb {
  static constexpr int kStates = 0;
  static constexpr bool kWritesWeight = true, kStochastic = false;
  struct Factors {
    float step_size;
  };

  bool adapt, trust_clip;
  const float *learning_rate, *squares;  // of the weight, then of the direction

  __device__ Factors factors() const {
    const double weight = sqrt(static_cast<double>(squares[0])),
                 direction = sqrt(static_cast<double>(squares[1]));
    double ratio = adapt && weight != 0 && direction != 0 ? weight / direction : 1.0;
    if (trust_clip) ratio = fmin(1.0, ratio);
    return {static_cast<float>(*learning_rate * ratio)};
  }
  __device__ static void apply(const Factors& f, float& w, const float& direction, float&, float&) {
    w = w - f.step_size * direction;
  }
};

}  // namespace

void lamb_direction(const KernelCall& call, Context& context) {
  for (std::size_t i = 0; i < 3; ++i) TS_ASSERT(call.inputs[i + 1].data == call.outputs[i].data);
  const auto& a = call.attrs->as<LambDirectionAttrs>();
  const Direction rule{a.beta1,
                       a.beta2,
                       a.eps,
                       a.weight_decay,
                       data<std::int32_t>(call.inputs[4]),
                       data<float>(call.inputs[5])};
  const TensorView* const low = call.inputs.size() == 7 ? &call.inputs[6] : nullptr;
  run_update(call, context, {call.inputs[0], call.outputs[0], &call.outputs[1], &call.outputs[2], low},
             a.range, rule);
}

void lamb(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  const auto& a = call.attrs->as<LambAttrs>();
  const Lamb rule{a.adapt, a.trust_clip, data<float>(call.inputs[2]), data<float>(call.inputs[3]) + a.index};
  const TensorView* const low = call.outputs.size() == 2 ? &call.outputs[1] : nullptr;
  run_update(call, context, {call.outputs[0], call.inputs[1], nullptr, nullptr, low}, a.range, rule);
}

}  // namespace tessera::cuda
