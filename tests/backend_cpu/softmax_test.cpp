#include "tessera/ops/softmax.h"

#include <algorithm>
#include <limits>

#include "backend_cpu/kernel_run.h"

namespace tessera::cpu {
namespace {

constexpr std::int64_t kRows = 29;

std::vector<double> naive_softmax(const std::vector<double>& x, std::int64_t columns) {
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(columns)) {
    const double max = *std::max_element(x.begin() + row, x.begin() + row + columns);
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += std::exp(x[row + c] - max);
    for (std::int64_t c = 0; c < columns; ++c) y[row + c] = std::exp(x[row + c] - max) / sum;
  }
  return y;
}

TEST(CpuSoftmax, MatchesTheDefinition) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor x = random_tensor(dtype, {kRows, n}, 1, 5.0);
      expect_close(run_kernel(cpu::softmax, Op::softmax, {}, {x})[0], naive_softmax(x.values(), n), dtype);
    }
  }
}

// A sum of a vocabulary's exponentials in fp32 alone is off by up to 1e-5.
TEST(CpuSoftmax, SumsOfWideRowsLoseNothing) {
  const std::int64_t rows = 8, columns = 50257;
  const HostTensor x = random_tensor(DType::f32, {rows, columns}, 1, 10.0);
  const std::vector<double> wanted = naive_softmax(x.values(), columns);
  const std::vector<double> found = run_kernel(cpu::softmax, Op::softmax, {}, {x})[0];
  for (std::int64_t r = 0; r < rows; ++r) {
    // Of the largest element the exponential is exact, so what is off is the sum.
    const auto at =
        std::max_element(wanted.begin() + r * columns, wanted.begin() + (r + 1) * columns) - wanted.begin();
    EXPECT_NEAR(found[at] / wanted[at], 1.0, 1e-6) << "row " << r;
  }
}

TEST(CpuSoftmax, MinusInfinityHasNoWeight) {
  for (DType dtype : kFloatingTypes) {
    const double infinity = std::numeric_limits<double>::infinity();
    std::vector<double> x = random_tensor(dtype, {4, 37}, 1).values();
    for (std::size_t i = 0; i < x.size(); i += 2) x[i] = -infinity;
    const HostTensor scores({dtype, {4, 37}}, x);
    const std::vector<double> y = run_kernel(cpu::softmax, Op::softmax, {}, {scores})[0];
    expect_close(y, naive_softmax(x, 37), dtype);
    for (std::size_t i = 0; i < x.size(); i += 2) EXPECT_EQ(y[i], 0.0);
  }
}

TEST(CpuSoftmax, Gradient) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor dy = random_tensor(dtype, {kRows, n}, 1);
      const HostTensor y({dtype, {kRows, n}}, naive_softmax(random_tensor(dtype, {kRows, n}, 2).values(), n));
      const std::vector<double> g = dy.values(), p = y.values();
      std::vector<double> wanted(g.size());
      for (std::int64_t r = 0; r < kRows; ++r) {
        double dot = 0;
        for (std::int64_t i = r * n; i < (r + 1) * n; ++i) dot += g[i] * p[i];
        for (std::int64_t i = r * n; i < (r + 1) * n; ++i) wanted[i] = p[i] * (g[i] - dot);
      }
      expect_close(run_kernel(cpu::softmax_grad, Op::softmax_grad, {}, {dy, y})[0], wanted, dtype);
    }
  }
}

TEST(CpuSoftmax, CausalMask) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : {1, 3, 17, 300}) {
      std::vector<double> wanted;
      for (std::int64_t i = 0; i < n * n; ++i) {
        wanted.push_back(i % n <= i / n ? 0.0 : -std::numeric_limits<double>::infinity());
      }
      const CausalMaskAttrs attrs{{dtype, {n, n}}};
      EXPECT_EQ(run_kernel(cpu::causal_mask, Op::causal_mask, attrs, {})[0], wanted);
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
