#include "backend_cpu/kernel_run.h"
#include "tessera/ops/optimizer_ops.h"

namespace tessera::cpu {
namespace {

TEST(CpuOptimizer, SumSquares) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : {1, 3, 17, 1000, 5000000}) {
      const HostTensor x({dtype, {n}}, std::vector<double>(static_cast<std::size_t>(n), 0.1));
      const double value = x.values()[0];
      const double wanted = value * value * static_cast<double>(n);
      expect_close(run_kernel(cpu::sum_squares, Op::sum_squares, SumSquaresAttrs{}, {x})[0], {wanted},
                   accumulate_dtype(dtype), wanted);
    }
    const HostTensor x = random_tensor(dtype, {123, 457}, 1);
    double wanted = 0;
    for (double value : x.values()) wanted += value * value;
    expect_close(run_kernel(cpu::sum_squares, Op::sum_squares, SumSquaresAttrs{}, {x})[0], {wanted},
                 accumulate_dtype(dtype));
  }
}

TEST(CpuOptimizer, SumScalars) {
  for (DType dtype : {DType::f32, DType::f64}) {
    std::vector<HostTensor> terms;
    for (double value : {4.0, 5.0, 7.0}) terms.emplace_back(ValueType{dtype, {}}, std::vector<double>{value});
    EXPECT_EQ(run_kernel(cpu::sum_scalars, Op::sum_scalars, {}, terms)[0], std::vector<double>{16.0});
    EXPECT_EQ(run_kernel(cpu::sum_scalars, Op::sum_scalars, {}, {terms[1]})[0], std::vector<double>{5.0});
  }
  // Added up in double: in fp32 the ones would be lost.
  std::vector<HostTensor> terms = {HostTensor({DType::f32, {}}, {33554432.0})};
  for (int i = 0; i < 4; ++i) terms.emplace_back(ValueType{DType::f32, {}}, std::vector<double>{1.0});
  EXPECT_EQ(run_kernel(cpu::sum_scalars, Op::sum_scalars, {}, terms)[0], std::vector<double>{33554436.0});
}

TEST(CpuOptimizer, ClipFactorAsTorch) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const std::vector<HostTensor> sum = {HostTensor({dtype, {}}, {16.0})};
    const auto factor = [&](double max_norm) {
      const auto found = run_kernel(cpu::clip_factor, Op::clip_factor, ClipFactorAttrs{max_norm, dtype}, sum);
      EXPECT_EQ(found[0], std::vector<double>{4.0});
      return found[1];
    };
    expect_close(factor(1.0), {1.0 / (4.0 + 1e-6)}, dtype);
    expect_close(factor(100.0), {1.0}, dtype);
    expect_close(factor(0.0), {1.0}, dtype);
  }
}

// One step by the formulas of torch.optim.AdamW (single tensor, not capturable).
struct Adam {
  std::vector<double> weight, grad, moment1, moment2;

  void step(const AdamWAttrs& attrs, double learning_rate, int t, double clip) {
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

TEST(CpuOptimizer, AdamWAsTorch) {
  const AdamWAttrs attrs{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : {1, 3, 17, 1000, 40000}) {
      for (int t : {1, 2, 1000}) {
        const DType state = accumulate_dtype(dtype);
        const HostTensor master = random_tensor(state, {n}, 1), grad = random_tensor(state, {n}, 2);
        const HostTensor moment1 = random_tensor(state, {n}, 3, 0.1);
        std::vector<double> squares = random_tensor(state, {n}, 4, 0.1).values();
        for (double& value : squares) value = std::abs(value) + 1e-3;
        const HostTensor moment2({state, {n}}, squares), rate({state, {}}, {0.125});
        const HostTensor step({DType::i32, {}}, {static_cast<double>(t)}), clip({state, {}}, {0.75});
        const HostTensor param({dtype, {n}}, master.values());
        std::vector<HostTensor> inputs = {param, grad, moment1, moment2, rate, step, clip};
        if (dtype == DType::bf16) inputs.push_back(master);

        Adam wanted{master.values(), grad.values(), moment1.values(), moment2.values()};
        wanted.step(attrs, 0.125, t, 0.75);
        const auto found = run_kernel(cpu::adamw, Op::adamw, attrs, inputs);
        expect_close(found[0], wanted.weight, dtype, 5);
        expect_close(found[1], wanted.moment1, state);
        expect_close(found[2], wanted.moment2, state);
        if (dtype == DType::bf16) {
          expect_close(found[3], wanted.weight, state, 5);
          EXPECT_EQ(found[0], HostTensor({dtype, {n}}, found[3]).values());
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
