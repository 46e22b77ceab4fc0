#include "tessera/backend/cpu/cross_entropy_rows.h"

#include <algorithm>

#include "backend_cpu/kernel_run.h"
#include "tessera/ops/cross_entropy.h"

namespace tessera::cpu {
namespace {

constexpr std::int64_t kTokens = 45;
constexpr double kScale = 0.25;

struct RowsCase {
  HostTensor logits, targets, scale;
  double loss = 0;
  std::vector<double> grad;
};

RowsCase make_case(DType dtype, std::int64_t n) {
  RowsCase c{random_tensor(dtype, {5, kTokens / 5, n}, 1, 4.0), random_ids({5, kTokens / 5}, 2, -1, n - 1),
             HostTensor({accumulate_dtype(dtype), {}}, {kScale})};
  const std::vector<double> x = c.logits.values(), targets = c.targets.values();
  c.grad.assign(x.size(), 0.0);
  for (std::int64_t r = 0; r < kTokens; ++r) {
    if (targets[r] < 0) continue;
    double sum = 0;
    for (std::int64_t i = r * n; i < (r + 1) * n; ++i) sum += std::exp(x[i]);
    const std::int64_t at = r * n + static_cast<std::int64_t>(targets[r]);
    c.loss += kScale * (std::log(sum) - x[at]);
    for (std::int64_t i = r * n; i < (r + 1) * n; ++i) {
      c.grad[i] = kScale * (std::exp(x[i]) / sum - (i == at ? 1.0 : 0.0));
    }
  }
  return c;
}

TEST(CpuCrossEntropy, LossAndGradient) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const RowsCase c = make_case(dtype, n);
      const std::vector<HostTensor> inputs = {c.logits, c.targets, c.scale};
      const auto loss = run_kernel(cpu::softmax_cross_entropy, Op::softmax_cross_entropy, {}, inputs)[0];
      const auto grad =
          run_kernel(cpu::softmax_cross_entropy_grad, Op::softmax_cross_entropy_grad, {}, inputs)[0];
      expect_close(loss, {c.loss}, accumulate_dtype(dtype));
      expect_close(grad, c.grad, dtype);
    }
  }
}

TEST(CpuCrossEntropy, RowsThatAreNotScoredGiveNothing) {
  std::vector<float> logits = {1.0f, 2.0f, 3.0f};
  EXPECT_EQ(cross_entropy_row<float>(logits, -1), 0.0);
  EXPECT_EQ(cross_entropy_row_grad<float>(logits, -100, 1.0f, logits), 0.0);
  EXPECT_EQ(logits, std::vector<float>(3, 0.0f));
}

TEST(CpuCrossEntropy, LargeLogitsDoNotOverflow) {
  std::vector<float> logits = {10000.0f, 9999.0f, -10000.0f};
  const double first = std::log(1 + std::exp(-1.0));
  EXPECT_NEAR(cross_entropy_row<float>(logits, 0), first, 1e-7);
  EXPECT_NEAR(cross_entropy_row<float>(logits, 2), first + 20000.0, 1e-3);
  EXPECT_NEAR(cross_entropy_row_grad<float>(logits, 1, 2.0f, logits), first + 1.0, 1e-7);
  EXPECT_NEAR(logits[0], 2 * std::exp(-first), 1e-6);
  EXPECT_NEAR(logits[1], -2 * std::exp(-first), 1e-6);
  EXPECT_EQ(logits[2], 0.0f);
}

TEST(CpuCrossEntropyDeathTest, ATargetOutsideOfTheVocabularyAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<float> logits = {1.0f, 2.0f, 3.0f};
  EXPECT_DEATH(cross_entropy_row<float>(logits, 3), "target < ");
  EXPECT_DEATH(cross_entropy_row_grad<float>(logits, 3, 1.0f, logits), "target < ");
}

}  // namespace
}  // namespace tessera::cpu
