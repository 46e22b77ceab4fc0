#include "tessera/backend/cuda/update.cuh"
#include "tessera/ops/optimizer_ops.h"

namespace tessera::cuda {
namespace {

// Loshchilov and Hutter (2019), in the order of torch.optim.AdamW. Factors are computed in double, since
// 1 - beta2^step cancels in float.
struct AdamW {
  static constexpr int kStates = 2;
  static constexpr bool kWritesWeight = true;
  struct Factors {
    float decay, clip, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, deviation_correction, eps;
  };

  double beta1, beta2, eps, weight_decay;
  const float* learning_rate;
  const std::int32_t* step;
  const float* clip;

  __device__ Factors factors() const {
    const double rate = *learning_rate, steps = *step;
    return {static_cast<float>(1.0 - rate * weight_decay),
            *clip,
            static_cast<float>(beta1),
            static_cast<float>(1.0 - beta1),
            static_cast<float>(beta2),
            static_cast<float>(1.0 - beta2),
            static_cast<float>(rate / (1.0 - pow(beta1, steps))),
            static_cast<float>(sqrt(1.0 - pow(beta2, steps))),
            static_cast<float>(eps)};
  }
  __device__ static void apply(const Factors& f, float& w, float& grad, float& m, float& v) {
    const float g = grad * f.clip;
    m = f.beta1 * m + f.one_minus_beta1 * g;
    v = f.beta2 * v + f.one_minus_beta2 * g * g;
    w = w * f.decay - f.step_size * (m / (sqrtf(v) / f.deviation_correction + f.eps));
    grad = 0;
  }
};

}  // namespace

void adamw(const KernelCall& call, Context& context) {
  for (std::size_t i = 0; i < 4; ++i) TS_ASSERT(call.inputs[i].data == call.outputs[i].data);
  const auto& a = call.attrs->as<AdamWAttrs>();
  const AdamW rule{a.beta1,
                   a.beta2,
                   a.eps,
                   a.weight_decay,
                   data<float>(call.inputs[4]),
                   data<std::int32_t>(call.inputs[5]),
                   data<float>(call.inputs[6])};
  const TensorView* const master = call.outputs.size() == 5 ? &call.outputs[4] : nullptr;
  run_update(call, context, {call.outputs[0], call.outputs[1], &call.outputs[2], &call.outputs[3], master},
             a.range, rule);
}

}  // namespace tessera::cuda
