#include "tessera/ops/dropout_add.h"

#include "backend_cpu/kernel_run.h"

namespace tessera::cpu {
namespace {

constexpr double kRate = 0.1;
constexpr std::int64_t kStream = 3;

HostTensor key_tensor(std::int64_t step, std::int64_t first_sequence) {
  return HostTensor(kDropoutKeyType,
                    {1234567.0, -5.0, static_cast<double>(step), static_cast<double>(first_sequence)});
}

// The factor of an element of the global batch, from the documented layout of the counters.
double naive_factor(std::uint64_t element, std::uint64_t step) {
  const std::uint64_t seed = 1234567u | std::uint64_t{0xfffffffbu} << 32;
  const PhiloxBlock block = philox(seed, element / 4 | std::uint64_t{kStream} << 48, step);
  return philox_uniform(block[element % 4]) >= kRate ? 1 / (1 - kRate) : 0.0;
}

TEST(CpuDropoutAdd, DropsWhatTheCountersSay) {
  const DropoutAttrs attrs{kRate, kStream};
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor x = random_tensor(dtype, {37, n}, 1), residual = random_tensor(dtype, {37, n}, 2);
      const std::vector<double> in = x.values(), base = residual.values();
      std::vector<double> dropped(in.size()), sums(in.size());
      for (std::size_t i = 0; i < in.size(); ++i) {
        dropped[i] = in[i] * naive_factor(2 * static_cast<std::uint64_t>(n) + i, 7);
        sums[i] = base[i] + dropped[i];
      }
      const HostTensor key = key_tensor(7, 2);
      expect_close(run_kernel(cpu::dropout_add, Op::dropout_add, attrs, {x, key, residual})[0], sums, dtype);
      expect_close(run_kernel(cpu::dropout_add, Op::dropout_add, attrs, {x, key})[0], dropped, dtype);
      expect_close(run_kernel(cpu::dropout_grad, Op::dropout_grad, attrs, {x, key})[0], dropped, dtype);
    }
  }
}

TEST(CpuDropoutAdd, DropsTheRateAndAnewForEveryStepAndSequence) {
  const std::int64_t n = 100000;
  const HostTensor ones({DType::f32, {1, n}}, std::vector<double>(static_cast<std::size_t>(n), 1.0));
  const DropoutAttrs attrs{kRate, kStream};
  const auto dropped = [&](std::int64_t step, std::int64_t first_sequence) {
    return run_kernel(cpu::dropout_add, Op::dropout_add, attrs, {ones, key_tensor(step, first_sequence)})[0];
  };
  const std::vector<double> mask = dropped(0, 0);
  const auto num_dropped = static_cast<double>(std::count(mask.begin(), mask.end(), 0.0));
  EXPECT_NEAR(num_dropped, kRate * n, 4 * std::sqrt(kRate * (1 - kRate) * n));  // four deviations
  EXPECT_NE(mask, dropped(1, 0));
  EXPECT_NE(mask, dropped(0, 1));
}

// However the sequences are cut into micro-batches, the same elements drop: also where a sequence does not
// begin with a block of four.
TEST(CpuDropoutAdd, TheCutIntoMicroBatchesDoesNotMatter) {
  const DropoutAttrs attrs{kRate, kStream};
  for (const std::int64_t width : {1, 3, 257}) {
    const HostTensor ones({DType::f32, {6, 5, width}},
                          std::vector<double>(static_cast<std::size_t>(30 * width), 1.0));
    const auto whole = run_kernel(cpu::dropout_add, Op::dropout_add, attrs, {ones, key_tensor(4, 0)})[0];
    for (const std::int64_t rows : {1, 2, 3}) {
      const HostTensor part({DType::f32, {rows, 5, width}},
                            std::vector<double>(static_cast<std::size_t>(rows * 5 * width), 1.0));
      std::vector<double> parts;
      for (std::int64_t first = 0; first < 6; first += rows) {
        const auto some =
            run_kernel(cpu::dropout_add, Op::dropout_add, attrs, {part, key_tensor(4, first)})[0];
        parts.insert(parts.end(), some.begin(), some.end());
      }
      EXPECT_EQ(parts, whole) << rows << " sequences of width " << width;
    }
  }
}

TEST(CpuDropoutAdd, RateZeroKeepsAll) {
  const HostTensor x = random_tensor(DType::f32, {1000}, 1);
  EXPECT_EQ(run_kernel(cpu::dropout_add, Op::dropout_add, DropoutAttrs{0.0, 0}, {x, key_tensor(1, 1)})[0],
            x.values());
}

}  // namespace
}  // namespace tessera::cpu
