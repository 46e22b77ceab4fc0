#include "tessera/ops/elementwise.h"

#include "backend_cpu/kernel_run.h"

namespace tessera::cpu {
namespace {

TEST(CpuElementwise, AddRepeatsTheShorterOperand) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      for (const Shape& short_shape : {Shape{3, 21, n}, Shape{21, n}, Shape{n}, Shape{}}) {
        const HostTensor a = random_tensor(dtype, {3, 21, n}, 1), b = random_tensor(dtype, short_shape, 2);
        std::vector<double> wanted = a.values();
        const std::vector<double> addend = b.values();
        for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += addend[i % addend.size()];
        expect_close(run_kernel(cpu::add, Op::add, {}, {a, b})[0], wanted, dtype);
      }
    }
  }
}

TEST(CpuElementwise, Mul) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor a = random_tensor(dtype, {37, n}, 1), b = random_tensor(dtype, {37, n}, 2);
      std::vector<double> wanted = a.values();
      const std::vector<double> factors = b.values();
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] *= factors[i];
      expect_close(run_kernel(cpu::mul, Op::mul, {}, {a, b})[0], wanted, dtype);
    }
  }
}

TEST(CpuElementwise, Scale) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor x = random_tensor(dtype, {37, n}, 1);
      std::vector<double> wanted = x.values();
      for (double& value : wanted) value *= 0.3;
      expect_close(run_kernel(cpu::scale, Op::scale, ScaleAttrs{0.3}, {x})[0], wanted, dtype);
    }
  }
}

TEST(CpuElementwise, ZerosOfEveryType) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32}) {
    const ValueType type{dtype, {3, 17, 1000}};
    EXPECT_EQ(run_kernel(cpu::zeros, Op::zeros, ZerosAttrs{type}, {})[0], std::vector<double>(51000, 0.0));
  }
}

TEST(CpuElementwise, SumToAddsToTheAccumulator) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      for (const Shape& short_shape : {Shape{5, 33, n}, Shape{33, n}, Shape{n}, Shape{}}) {
        const HostTensor sums = random_tensor(accumulate_dtype(dtype), short_shape, 1);
        const HostTensor x = random_tensor(dtype, {5, 33, n}, 2);
        std::vector<double> wanted = sums.values();
        const std::vector<double> added = x.values();
        for (std::size_t i = 0; i < added.size(); ++i) wanted[i % wanted.size()] += added[i];
        expect_close(run_kernel(cpu::sum_to, Op::sum_to, {}, {sums, x})[0], wanted, accumulate_dtype(dtype));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
