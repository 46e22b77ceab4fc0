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

}  // namespace
}  // namespace tessera::cpu
