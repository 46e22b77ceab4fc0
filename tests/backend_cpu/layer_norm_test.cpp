#include "tessera/ops/layer_norm.h"

#include "backend_cpu/kernel_run.h"
#include "tessera/backend/cpu/kernel_workspace.h"

namespace tessera::cpu {
namespace {

struct Rows {
  std::vector<double> mean, inverse_deviation;
};

Rows naive_statistics(const std::vector<double>& x, std::int64_t n) {
  Rows rows;
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(n)) {
    double mean = 0, variance = 0;
    for (std::int64_t c = 0; c < n; ++c) mean += x[row + c] / static_cast<double>(n);
    for (std::int64_t c = 0; c < n; ++c) variance += std::pow(x[row + c] - mean, 2) / static_cast<double>(n);
    rows.mean.push_back(mean);
    rows.inverse_deviation.push_back(1 / std::sqrt(variance + kNormEps));
  }
  return rows;
}

TEST(CpuLayerNorm, MatchesTheDefinition) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor x = random_tensor(dtype, {2, kNormRows / 2, n}, 1);
      const HostTensor weight = random_tensor(dtype, {n}, 2), bias = random_tensor(dtype, {n}, 3);
      const std::vector<double> in = x.values(), w = weight.values(), b = bias.values();
      const Rows rows = naive_statistics(in, n);
      std::vector<double> wanted(in.size());
      for (std::int64_t i = 0; i < kNormRows * n; ++i) {
        wanted[i] = (in[i] - rows.mean[i / n]) * rows.inverse_deviation[i / n] * w[i % n] + b[i % n];
      }
      const auto found =
          run_kernel(cpu::layer_norm, Op::layer_norm, LayerNormAttrs{kNormEps}, {x, weight, bias});
      // Three close numbers lose digits when their mean is taken off.
      expect_close(found[0], wanted, dtype, n == 3 ? 10 : 1);
      expect_close(found[1], rows.mean, accumulate_dtype(dtype));
      expect_close(found[2], rows.inverse_deviation, accumulate_dtype(dtype), n == 3 ? 10 : 1);
    }
  }
}

// The mean of the squares minus the square of the mean would leave nothing of the variance here.
TEST(CpuLayerNorm, ALargeMeanDoesNotCancelTheVariance) {
  std::vector<double> x;
  for (int i = 0; i < 64; ++i) x.push_back(4096.0 + (i % 2 == 0 ? 0.5 : -0.5));
  const HostTensor ones({DType::f32, {64}}, std::vector<double>(64, 1.0)), zeros({DType::f32, {64}});
  const HostTensor row({DType::f32, {1, 64}}, x);
  const auto y = run_kernel(cpu::layer_norm, Op::layer_norm, LayerNormAttrs{1e-12}, {row, ones, zeros})[0];
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i % 2 == 0 ? 1.0 : -1.0);
}

TEST(CpuLayerNorm, Gradient) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const DType sums_dtype = accumulate_dtype(dtype);
      const HostTensor dy = random_tensor(dtype, {kNormRows, n}, 1),
                       x = random_tensor(dtype, {kNormRows, n}, 2);
      const HostTensor weight = random_tensor(dtype, {n}, 3);
      const HostTensor weight_sums = random_tensor(sums_dtype, {n}, 4),
                       bias_sums = random_tensor(sums_dtype, {n}, 5);
      const HostTensor mean = random_tensor(sums_dtype, {kNormRows}, 6),
                       deviation = random_tensor(sums_dtype, {kNormRows}, 7);
      const std::vector<double> g = dy.values(), in = x.values(), w = weight.values();
      const std::vector<double> means = mean.values(), scales = deviation.values();
      std::vector<double> dx(in.size()), dweight = weight_sums.values(), dbias = bias_sums.values();
      for (std::int64_t r = 0; r < kNormRows; ++r) {
        double sum = 0, dot = 0;
        for (std::int64_t c = 0; c < n; ++c) {
          const double normed = (in[r * n + c] - means[r]) * scales[r];
          sum += g[r * n + c] * w[c] / static_cast<double>(n);
          dot += g[r * n + c] * w[c] * normed / static_cast<double>(n);
          dweight[c] += g[r * n + c] * normed;
          dbias[c] += g[r * n + c];
        }
        for (std::int64_t c = 0; c < n; ++c) {
          const double normed = (in[r * n + c] - means[r]) * scales[r];
          dx[r * n + c] = scales[r] * (g[r * n + c] * w[c] - sum - normed * dot);
        }
      }
      const auto found = run_kernel(cpu::layer_norm_grad, Op::layer_norm_grad, {},
                                    {dy, x, weight, mean, deviation, weight_sums, bias_sums},
                                    layer_norm_grad_workspace_bytes);
      expect_close(found[0], dx, dtype, 30);
      expect_close(found[1], dweight, sums_dtype, 20);
      expect_close(found[2], dbias, sums_dtype, 10);
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
