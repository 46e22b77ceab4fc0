#include "tessera/backend/cuda/update.cuh"
#include "tessera/ops/sgd.h"

namespace tessera::cuda {
namespace {

struct Sgd {
  static constexpr int kStates = 1;
  static constexpr bool kWritesWeight = true, kStochastic = false;
  struct Factors {
    float rate, clip, decay, kept;
  };

  double momentum, weight_decay;
  const float *learning_rate, *clip;

  __device__ Factors factors() const {
    return {*learning_rate, *clip, static_cast<float>(weight_decay), static_cast<float>(momentum)};
  }
  __device__ static void apply(const Factors& f, float& w, const float& grad, float& m, float&) {
    m = f.kept * m + (grad * f.clip + f.decay * w);
    w = w - f.rate * m;
  }
};

}  // namespace

void sgd(const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data && call.inputs[2].data == call.outputs[1].data);
  const auto& a = call.attrs->as<SgdAttrs>();
  const Sgd rule{a.momentum, a.weight_decay, data<float>(call.inputs[3]), data<float>(call.inputs[4])};
  const TensorView* const low = call.outputs.size() == 3 ? &call.outputs[2] : nullptr;
  run_update(call, context, {call.outputs[0], call.inputs[1], &call.outputs[1], nullptr, low}, a.range, rule);
}

}  // namespace tessera::cuda
