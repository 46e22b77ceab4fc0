#include "backend_cpu/kernel_run.h"
#include "tessera/ops/optimizer_ops.h"

namespace tessera::cpu {
namespace {

// One step by the formulas of torch.optim.AdamW (single tensor, not capturable), or by those of transformers'
// AdamW: eps beside the uncorrected root, and decay of what the step has left.
struct Adam {
  std::vector<double> weight, grad, moment1, moment2;

  void step_of_transformers(const AdamWAttrs& attrs, double learning_rate, int t, double clip) {
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const double g = grad[i] * clip;
      moment1[i] = attrs.beta1 * moment1[i] + (1 - attrs.beta1) * g;
      moment2[i] = attrs.beta2 * moment2[i] + (1 - attrs.beta2) * g * g;
      const double denominator = std::sqrt(moment2[i]) + attrs.eps;
      const double step_size =
          learning_rate * std::sqrt(1 - std::pow(attrs.beta2, t)) / (1 - std::pow(attrs.beta1, t));
      weight[i] -= step_size * moment1[i] / denominator;
      weight[i] -= learning_rate * attrs.weight_decay * weight[i];
    }
  }

  void step(const AdamWAttrs& attrs, double learning_rate, int t, double clip) {
    if (attrs.form == AdamWForm::transformers) return step_of_transformers(attrs, learning_rate, t, clip);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const double g = grad[i] * clip;
      weight[i] *= 1 - learning_rate * attrs.weight_decay;
      moment1[i] = attrs.beta1 * moment1[i] + (1 - attrs.beta1) * g;
      moment2[i] = attrs.beta2 * moment2[i] + (1 - attrs.beta2) * g * g;
      const double correction1 = 1 - std::pow(attrs.beta1, t), correction2 = 1 - std::pow(attrs.beta2, t);
      const double denominator = std::sqrt(moment2[i]) / std::sqrt(correction2) + attrs.eps;
      weight[i] -= learning_rate / correction1 * moment1[i] / denominator;
    }
  }
};

// An update with operands of n elements; a bf16 parameter is the rounding of an fp32 weight. The gradient may
// be as narrow as the parameter.
void expect_adamw(const AdamWAttrs& attrs, DType dtype, DType grad_dtype, std::int64_t n, int t) {
  const DType state = accumulate_dtype(dtype);
  const HostTensor start = random_tensor(state, {n}, 1), grad = random_tensor(grad_dtype, {n}, 2);
  const HostTensor moment1 = random_tensor(state, {n}, 3, 0.1);
  std::vector<double> squares = random_tensor(state, {n}, 4, 0.1).values();
  for (double& value : squares) value = std::abs(value) + 1e-3;
  const HostTensor moment2({state, {n}}, squares), rate({state, {}}, {0.125});
  const HostTensor step({DType::i32, {}}, {static_cast<double>(t)}), clip({state, {}}, {0.75});
  const HostTensor param({dtype, {n}}, start.values());
  std::vector<HostTensor> inputs = {param, grad, moment1, moment2, rate, step, clip};
  if (dtype == DType::bf16) inputs.push_back(low_halves(start.values()));

  Adam wanted{start.values(), grad.values(), moment1.values(), moment2.values()};
  wanted.step(attrs, 0.125, t, 0.75);
  const auto found = run_kernel(cpu::adamw, Op::adamw, attrs, inputs);
  expect_close(found[0], wanted.weight, dtype, 5);
  expect_close(found[1], wanted.moment1, state);
  expect_close(found[2], wanted.moment2, state);
  if (dtype == DType::bf16) expect_close(joined(found[0], found[3]), wanted.weight, state, 5);
}

void expect_adamw(const AdamWAttrs& attrs) {
  for (std::int64_t n : {1, 3, 17, 1000, 40000}) {
    for (int t : {1, 2, 1000}) {
      for (DType dtype : kFloatingTypes) expect_adamw(attrs, dtype, accumulate_dtype(dtype), n, t);
      expect_adamw(attrs, DType::bf16, DType::bf16, n, t);
    }
  }
}

TEST(CpuAdamW, AsTorch) {
  expect_adamw({.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
}

// With an eps of the size of the moments' roots, so that its place is seen.
TEST(CpuAdamW, AsTransformers) {
  expect_adamw(
      {.beta1 = 0.9, .beta2 = 0.999, .eps = 0.1, .weight_decay = 0.1, .form = AdamWForm::transformers});
  expect_adamw(
      {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6, .weight_decay = 0.01, .form = AdamWForm::transformers});
}

// Where all there is of weights or moments is bf16: equal elements are rounded to the two neighbours of what
// they should be, so often that their mean is right. The step is far too small to be seen by rounding to
// nearest.
TEST(CpuAdamW, RoundsBf16Stochastically) {
  constexpr std::int64_t kCount = 40001;
  const AdamWAttrs attrs{.beta1 = 0.9, .beta2 = 0.999, .weight_decay = 0, .parameter_hash = 7};
  const auto all = [](DType dtype, double value) {
    return HostTensor({dtype, {kCount}}, std::vector<double>(kCount, value));
  };
  const auto scalar = [](DType dtype, double value) { return HostTensor({dtype, {}}, {value}); };
  for (DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<HostTensor> inputs = {
        all(dtype, 1.0),          all(DType::f32, 0.5),  all(DType::bf16, 0.25), all(DType::bf16, 0.125),
        scalar(DType::f32, 1e-3), scalar(DType::i32, 5), scalar(DType::f32, 1.0)};
    Adam wanted{{1.0}, {0.5}, {0.25}, {0.125}};
    wanted.step(attrs, 1e-3, 5, 1.0);
    const auto found = run_kernel(cpu::adamw, Op::adamw, attrs, inputs);
    const auto expect_mean = [&](const std::vector<double>& values, double mean) {
      double sum = 0, low = mean, high = mean;
      for (double v : values) {
        sum += v;
        low = std::min(low, v);
        high = std::max(high, v);
      }
      const double gap = high - low;  // one unit of bf16's last place
      EXPECT_GT(gap, 0);
      EXPECT_LE(gap, std::abs(mean) / 128);
      for (double v : values) ASSERT_TRUE(v == low || v == high) << v;
      EXPECT_NEAR(sum / kCount, mean, 5 * 0.5 * gap / std::sqrt(kCount));
    };
    expect_mean(found[1], wanted.moment1[0]);
    expect_mean(found[2], wanted.moment2[0]);
    if (dtype == DType::bf16) {
      expect_mean(found[0], wanted.weight[0]);
    } else {
      expect_close(found[0], std::vector<double>(kCount, wanted.weight[0]), DType::f32);
    }
    // Other elements and other steps have other bits.
    std::vector<HostTensor> later = inputs;
    later[5] = scalar(DType::i32, 6);
    EXPECT_NE(run_kernel(cpu::adamw, Op::adamw, attrs, later)[1], found[1]);
  }
}

}  // namespace
}  // namespace tessera::cpu
