// bench_cpu_gemm [milliseconds per shape]: speed of every matrix product of a training step, as a share of
// the measured FMA peak, on one and two threads. Best of many repetitions.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "arguments.h"
#include "tessera/backend/cpu/fma_peak.h"
#include "tessera/backend/cpu/gemm.h"

namespace tessera::cpu {
namespace {

struct Case {
  const char* name;
  GemmShape shape;
  bool transpose_a;
  bool transpose_b;
  double beta;
  int per_step;  // how often a GPT-2 124M step of 1024 tokens runs it; 0: another model's shape
};

// NT: forward, NN: gradient of the input, TN: gradient of the weight.
const std::vector<Case> kCases = {
    {"qkv forward NT", {1024, 2304, 768}, false, true, 0, 12},
    {"proj forward NT", {1024, 768, 768}, false, true, 0, 12},
    {"fc forward NT", {1024, 3072, 768}, false, true, 0, 12},
    {"fc2 forward NT", {1024, 768, 3072}, false, true, 0, 12},
    {"qkv dX NN", {1024, 768, 2304}, false, false, 0, 12},
    {"proj dX NN", {1024, 768, 768}, false, false, 0, 12},
    {"fc dX NN", {1024, 768, 3072}, false, false, 0, 12},
    {"fc2 dX NN", {1024, 3072, 768}, false, false, 0, 12},
    {"qkv dW TN", {2304, 768, 1024}, true, false, 1, 12},
    {"proj dW TN", {768, 768, 1024}, true, false, 1, 12},
    {"fc dW TN", {3072, 768, 1024}, true, false, 1, 12},
    {"fc2 dW TN", {768, 3072, 1024}, true, false, 1, 12},
    {"head 512 forward NT", {512, 50304, 768}, false, true, 0, 2},
    {"head 512 dX NN", {512, 768, 50304}, false, false, 0, 2},
    {"head 512 dW TN", {50304, 768, 512}, true, false, 1, 2},
    {"head 128 forward NT", {128, 50304, 768}, false, true, 0, 0},
    {"head 128 dX NN", {128, 768, 50304}, false, false, 0, 0},
    {"head 128 dW TN", {50304, 768, 128}, true, false, 1, 0},
    {"small forward NT", {2048, 256, 256}, false, true, 0, 0},
    {"small fc forward NT", {2048, 1024, 256}, false, true, 0, 0},
    {"small fc dX NN", {2048, 256, 1024}, false, false, 0, 0},
    {"small fc dW TN", {1024, 256, 2048}, true, false, 1, 0},
    {"small head forward NT", {512, 8192, 256}, false, true, 0, 0},
};

double best_seconds(ThreadPool& pool, const Case& test, std::chrono::milliseconds budget) {
  using Clock = std::chrono::steady_clock;
  const auto [m, n, k] = test.shape;
  const auto matrix = [](std::int64_t elems) {
    return std::vector<float>(static_cast<std::size_t>(elems), 0.5f);
  };
  const std::vector<float> a = matrix(m * k), b = matrix(k * n);
  std::vector<float> c = matrix(m * n);
  std::vector<std::byte> workspace(
      static_cast<std::size_t>(gemm_workspace_bytes(test.shape, DType::f32, pool.num_threads())));
  Gemm<float, float, float> product;
  product.shape = test.shape;
  product.a = {a.data(), test.transpose_a ? m : k, test.transpose_a};
  product.b = {b.data(), test.transpose_b ? k : n, test.transpose_b};
  product.c = {c.data(), n};
  product.beta = test.beta;
  double best = 1e30;
  for (const auto start = Clock::now(); Clock::now() - start < budget;) {
    const auto begin = Clock::now();
    gemm(pool, product, workspace);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

void run(int num_threads, std::chrono::milliseconds budget) {
  ThreadPool pool(num_threads);
  double peak = 0;
  for (int i = 0; i < 5; ++i) peak = std::max(peak, measure_fma_peak(pool));
  fmt::print("\n{} thread(s), FMA peak {:.1f} GFLOP/s\n{:<24}{:>8}{:>8}{:>8}{:>10}{:>8}\n", num_threads,
             peak / 1e9, "product", "M", "N", "K", "GFLOP/s", "share");
  double step_flops = 0, step_seconds = 0;
  for (const Case& test : kCases) {
    const auto [m, n, k] = test.shape;
    const double seconds = best_seconds(pool, test, budget);
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    step_flops += test.per_step * flops;
    step_seconds += test.per_step * seconds;
    fmt::print("{:<24}{:>8}{:>8}{:>8}{:>10.1f}{:>7.1f}%\n", test.name, m, n, k, flops / seconds / 1e9,
               100 * flops / seconds / peak);
  }
  fmt::print("all products of a GPT-2 124M step, 1024 tokens: {:.3f} s, {:.1f} GFLOP/s, {:.1f}% of peak\n",
             step_seconds, step_flops / step_seconds / 1e9, 100 * step_flops / step_seconds / peak);
}

}  // namespace
}  // namespace tessera::cpu

int main(int argc, char** argv) {
  const std::chrono::milliseconds budget(
      tessera::bench::only_argument(argc, argv, 300, "bench_cpu_gemm [MILLISECONDS]"));
  for (const int num_threads : {1, 2}) tessera::cpu::run(num_threads, budget);
}
