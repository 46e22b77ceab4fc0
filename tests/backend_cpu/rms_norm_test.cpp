#include "tessera/ops/rms_norm.h"

#include "backend_cpu/kernel_run.h"
#include "tessera/backend/cpu/kernel_workspace.h"

namespace tessera::cpu {
namespace {

TEST(CpuRmsNorm, MatchesTheDefinition) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor x = random_tensor(dtype, {2, kNormRows / 2, n}, 1),
                       weight = random_tensor(dtype, {n}, 2);
      const std::vector<double> in = x.values(), w = weight.values();
      std::vector<double> wanted(in.size()), inverse_rms(kNormRows);
      for (std::int64_t r = 0; r < kNormRows; ++r) {
        double squares = 0;
        for (std::int64_t c = 0; c < n; ++c) squares += in[r * n + c] * in[r * n + c];
        inverse_rms[r] = 1 / std::sqrt(squares / static_cast<double>(n) + kNormEps);
        for (std::int64_t c = 0; c < n; ++c) wanted[r * n + c] = in[r * n + c] * inverse_rms[r] * w[c];
      }
      const auto found = run_kernel(cpu::rms_norm, Op::rms_norm, RmsNormAttrs{kNormEps}, {x, weight});
      expect_close(found[0], wanted, dtype);
      expect_close(found[1], inverse_rms, accumulate_dtype(dtype));
    }
  }
}

TEST(CpuRmsNorm, Gradient) {
  for (DType dtype : kFloatingTypes) {
    for (std::int64_t n : kOddSizes) {
      const HostTensor dy = random_tensor(dtype, {kNormRows, n}, 1),
                       x = random_tensor(dtype, {kNormRows, n}, 2);
      const HostTensor weight = random_tensor(dtype, {n}, 3);
      const HostTensor sums = random_tensor(accumulate_dtype(dtype), {n}, 4);
      const std::vector<double> g = dy.values(), in = x.values(), w = weight.values();
      std::vector<double> dx(in.size()), dweight = sums.values(), inverse_rms(kNormRows);
      for (std::int64_t r = 0; r < kNormRows; ++r) inverse_rms[r] = 0.5 + static_cast<double>(r % 7);
      const HostTensor statistics({accumulate_dtype(dtype), {kNormRows}}, inverse_rms);
      for (std::int64_t r = 0; r < kNormRows; ++r) {
        const double scale = inverse_rms[r];
        double dot = 0;
        for (std::int64_t c = 0; c < n; ++c) {
          dot += g[r * n + c] * w[c] * in[r * n + c] * scale / static_cast<double>(n);
        }
        for (std::int64_t c = 0; c < n; ++c) {
          const double normed = in[r * n + c] * scale;
          dx[r * n + c] = scale * (g[r * n + c] * w[c] - normed * dot);
          dweight[c] += g[r * n + c] * normed;
        }
      }
      const auto found = run_kernel(cpu::rms_norm_grad, Op::rms_norm_grad, {},
                                    {dy, x, weight, statistics, sums}, rms_norm_grad_workspace_bytes);
      expect_close(found[0], dx, dtype, 200);  // terms of up to scale^3 = 275
      expect_close(found[1], dweight, accumulate_dtype(dtype), 50);
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
