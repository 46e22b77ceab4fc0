#include "tessera/ops/activation.h"

#include <numbers>

#include "backend_cpu/kernel_run.h"

namespace tessera::cpu {
namespace {

double naive_sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double naive_silu(double x) {
  return x * naive_sigmoid(x);
}
double naive_silu_slope(double x) {
  return naive_sigmoid(x) + x * naive_sigmoid(x) * naive_sigmoid(-x);
}
double naive_gelu(double x) {
  return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
}
double naive_gelu_slope(double x) {
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
         x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}
double naive_gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double naive_gelu_tanh_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
}

double naive_tanh(double x) {
  return std::tanh(x);
}
double naive_tanh_slope(double x) {
  return 1 / (std::cosh(x) * std::cosh(x));
}

using Function = double (*)(double);

void check_value(Kernel kernel, Op op, const Attrs& attrs, Function naive) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor x = random_tensor(dtype, {33, n}, 1, 3.0);
      std::vector<double> wanted = x.values();
      for (double& value : wanted) value = naive(value);
      expect_close(run_kernel(kernel, op, attrs, {x})[0], wanted, dtype);
    }
  }
}

void check_grad(Kernel kernel, Op op, const Attrs& attrs, Function naive_slope) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor dy = random_tensor(dtype, {33, n}, 1), x = random_tensor(dtype, {33, n}, 2, 3.0);
      std::vector<double> wanted = x.values();
      const std::vector<double> g = dy.values();
      for (std::size_t i = 0; i < g.size(); ++i) wanted[i] = g[i] * naive_slope(wanted[i]);
      expect_close(run_kernel(kernel, op, attrs, {dy, x})[0], wanted, dtype, 3);
    }
  }
}

TEST(CpuActivation, Silu) {
  check_value(cpu::silu, Op::silu, {}, naive_silu);
  check_grad(cpu::silu_grad, Op::silu_grad, {}, naive_silu_slope);
}

TEST(CpuActivation, GeluByErf) {
  check_value(cpu::gelu, Op::gelu, GeluAttrs{false}, naive_gelu);
  check_grad(cpu::gelu_grad, Op::gelu_grad, GeluAttrs{false}, naive_gelu_slope);
}

TEST(CpuActivation, GeluByTanh) {
  check_value(cpu::gelu, Op::gelu, GeluAttrs{true}, naive_gelu_tanh);
  check_grad(cpu::gelu_grad, Op::gelu_grad, GeluAttrs{true}, naive_gelu_tanh_slope);
}

TEST(CpuActivation, Tanh) {
  check_value(cpu::tanh, Op::tanh, {}, naive_tanh);
  check_grad(cpu::tanh_grad, Op::tanh_grad, {}, naive_tanh_slope);
}

TEST(CpuActivation, Swiglu) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor dy = random_tensor(dtype, {33, n}, 1),
                       gate_up = random_tensor(dtype, {33, 2 * n}, 2, 3.0);
      const std::vector<double> g = dy.values(), in = gate_up.values();
      std::vector<double> out(g.size()), din(in.size());
      for (std::int64_t i = 0; i < 33 * n; ++i) {
        const std::int64_t at = i / n * 2 * n + i % n;
        out[i] = naive_silu(in[at]) * in[at + n];
        din[at] = g[i] * in[at + n] * naive_silu_slope(in[at]);
        din[at + n] = g[i] * naive_silu(in[at]);
      }
      expect_close(run_kernel(cpu::swiglu, Op::swiglu, {}, {gate_up})[0], out, dtype, 10);
      expect_close(run_kernel(cpu::swiglu_grad, Op::swiglu_grad, {}, {dy, gate_up})[0], din, dtype, 10);
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
