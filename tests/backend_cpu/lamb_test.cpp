#include "tessera/ops/lamb.h"

#include "backend_cpu/kernel_run.h"

namespace tessera::cpu {
namespace {

using Doubles = std::vector<double>;

// Moments positive, as sums of squares are.
HostTensor positive(const HostTensor& tensor) {
  Doubles values = tensor.values();
  for (double& v : values) v = std::abs(v) + 1e-3;
  return {tensor.type, values};
}

TEST(CpuLamb, DirectionAsInThePaper) {
  const LambDirectionAttrs attrs{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1};
  for (DType dtype : kFloatingTypes) {
    const DType state = accumulate_dtype(dtype);
    for (std::int64_t n : {1, 3, 17, 1000, 40000}) {
      const int t = 3;
      const HostTensor weight = random_tensor(state, {n}, 1), grad = random_tensor(state, {n}, 2);
      const HostTensor moment1 = random_tensor(state, {n}, 3, 0.1);
      const HostTensor moment2 = positive(random_tensor(state, {n}, 4, 0.1));
      std::vector<HostTensor> inputs = {HostTensor({dtype, {n}}, weight.values()),
                                        grad,
                                        moment1,
                                        moment2,
                                        HostTensor({DType::i32, {}}, {static_cast<double>(t)}),
                                        HostTensor({state, {}}, {0.75})};
      if (dtype == DType::bf16) inputs.push_back(low_halves(weight.values()));
      const auto found = run_kernel(cpu::lamb_direction, Op::lamb_direction, attrs, inputs);
      const Doubles w = weight.values(), gradients = grad.values();
      Doubles direction, mean = moment1.values(), square = moment2.values();
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        const double g = 0.75 * gradients[i];
        mean[i] = attrs.beta1 * mean[i] + (1 - attrs.beta1) * g;
        square[i] = attrs.beta2 * square[i] + (1 - attrs.beta2) * g * g;
        const double corrected = mean[i] / (1 - std::pow(attrs.beta1, t));
        const double deviation = std::sqrt(square[i] / (1 - std::pow(attrs.beta2, t)));
        direction.push_back(corrected / (deviation + attrs.eps) + attrs.weight_decay * w[i]);
      }
      expect_close(found[0], direction, state, 5);
      expect_close(found[1], mean, state);
      expect_close(found[2], square, state);
    }
  }
}

// Squares [9, 16] of the first parameter and [25, 4] of the second: trust ratios 3 / 4 and 5 / 2.
TEST(CpuLamb, StepIsScaledByTheTrustRatio) {
  struct Case {
    LambAttrs attrs;
    Doubles squares;
    double ratio;
  };
  const Case cases[] = {{{.index = 0}, {9, 16, 25, 4}, 0.75},
                        {{.index = 2}, {9, 16, 25, 4}, 2.5},
                        {{.index = 2, .trust_clip = true}, {9, 16, 25, 4}, 1.0},
                        {{.index = 0, .trust_clip = true}, {9, 16, 25, 4}, 0.75},
                        {{.index = 0, .adapt = false}, {9, 16, 25, 4}, 1.0},
                        {{.index = 0}, {0, 16}, 1.0},
                        {{.index = 0}, {9, 0}, 1.0}};
  for (DType dtype : kFloatingTypes) {
    const DType state = accumulate_dtype(dtype);
    for (const Case& c : cases) {
      const std::int64_t n = 1000;
      const HostTensor weight = random_tensor(state, {n}, 1), direction = random_tensor(state, {n}, 2);
      const ValueType squares{state, {static_cast<std::int64_t>(c.squares.size())}};
      std::vector<HostTensor> inputs = {HostTensor({dtype, {n}}, weight.values()), direction,
                                        HostTensor({state, {}}, {0.125}), HostTensor(squares, c.squares)};
      if (dtype == DType::bf16) inputs.push_back(low_halves(weight.values()));
      const Doubles by = direction.values();
      Doubles wanted = weight.values();
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] -= 0.125 * c.ratio * by[i];
      const auto found = run_kernel(cpu::lamb, Op::lamb, c.attrs, inputs);
      expect_close(found[0], wanted, dtype, 5);
      if (dtype == DType::bf16) expect_close(joined(found[0], found[1]), wanted, state, 5);
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
