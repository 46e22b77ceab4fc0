#include <vector>

#include "tessera/backend/cuda/many_tensors.h"
#include "tessera/backend/cuda/update.cuh"
#include "tessera/ops/optimizer_ops.h"

namespace tessera::cuda {
namespace {

// Loshchilov and Hutter (2019). Factors are computed in double, since 1 - beta2^step cancels in float. The
// two forms differ in which of the decays is 1 and in eps alone.
struct AdamW {
  static constexpr int kStates = 2;
  static constexpr bool kWritesWeight = true, kStochastic = true;
  struct Factors {
    float decay_before, decay_after, clip, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size,
        deviation_factor, eps;
    std::uint32_t step;
  };

  double beta1, beta2, eps, weight_decay;
  AdamWForm form;
  const float* learning_rate;
  const std::int32_t* step;
  const float* clip;

  bool operator==(const AdamW&) const = default;

  __device__ Factors factors() const {
    const double rate = *learning_rate, steps = *step;
    const double correction = sqrt(1.0 - pow(beta2, steps));
    const auto decay = static_cast<float>(1.0 - rate * weight_decay);
    const bool torch = form == AdamWForm::torch;
    return {torch ? decay : 1.0f,
            torch ? 1.0f : decay,
            *clip,
            static_cast<float>(beta1),
            static_cast<float>(1.0 - beta1),
            static_cast<float>(beta2),
            static_cast<float>(1.0 - beta2),
            static_cast<float>(rate / (1.0 - pow(beta1, steps))),
            static_cast<float>(1.0 / correction),
            static_cast<float>(torch ? eps : eps / correction),
            static_cast<std::uint32_t>(*step)};
  }

  // Root and quotient are right to 2^-21, which is nothing beside an update's own rounding into the weight;
  // of squares below 1.2e-38 the root is 0, which is nothing beside eps. Exact ones are half of the
  // instructions, and energy is what a large model's step waits for.
  __device__ static void apply(const Factors& f, float& w, const float& grad, float& m, float& v) {
    const float g = grad * f.clip;
    m = f.beta1 * m + f.one_minus_beta1 * g;
    v = f.beta2 * v + f.one_minus_beta2 * g * g;
    const float step = __fdividef(m, fmaf(sqrt_approx(v), f.deviation_factor, f.eps));
    w = (w * f.decay_before - f.step_size * step) * f.decay_after;
  }
};

// Of equal rules all parameters can be updated at once.
AdamW rule_of(const KernelCall& call) {
  const auto& a = call.attrs->as<AdamWAttrs>();
  return {a.beta1,
          a.beta2,
          a.eps,
          a.weight_decay,
          a.form,
          data<float>(call.inputs[4]),
          data<std::int32_t>(call.inputs[5]),
          data<float>(call.inputs[6])};
}

UpdateTensors tensors_of(const KernelCall& call) {
  TS_ASSERT(call.inputs[0].data == call.outputs[0].data);
  for (std::size_t i = 1; i < 3; ++i) TS_ASSERT(call.inputs[i + 1].data == call.outputs[i].data);
  const auto& attrs = call.attrs->as<AdamWAttrs>();
  const TensorView* const low = call.outputs.size() == 4 ? &call.outputs[3] : nullptr;
  return {call.outputs[0],
          call.inputs[1],
          &call.outputs[1],
          &call.outputs[2],
          low,
          own_range(call, attrs.range, call.inputs[0].num_elems()),
          attrs.parameter_hash};
}

bool same_types(const UpdateTensors& a, const UpdateTensors& b) {
  return a.param.dtype == b.param.dtype && a.state1->dtype == b.state1->dtype &&
         a.grad.dtype == b.grad.dtype && (a.low == nullptr) == (b.low == nullptr);
}

}  // namespace

void adamw(const KernelCall& call, Context& context) {
  const UpdateTensors tensors = tensors_of(call);
  run_updates(context, std::span(&tensors, 1), rule_of(call));
}

void adamw_of_many(std::span<const KernelCall> calls, Context& context) {
  struct Group {
    AdamW rule;
    std::vector<UpdateTensors> tensors;
  };
  std::vector<Group> groups;
  for (const KernelCall& call : calls) {
    const AdamW rule = rule_of(call);
    const UpdateTensors tensors = tensors_of(call);
    auto group = std::ranges::find_if(
        groups, [&](const Group& g) { return g.rule == rule && same_types(g.tensors.front(), tensors); });
    if (group == groups.end()) group = groups.insert(group, Group{rule, {}});
    group->tensors.push_back(tensors);
  }
  for (const Group& group : groups) run_updates(context, std::span(group.tensors), group.rule);
}

}  // namespace tessera::cuda
