// bench_cpu_attention [milliseconds per case]: speed of attention forward and backward over sequence lengths,
// as a share of the measured FMA peak, counting only the scores that the causal mask leaves; and the bytes
// of scratch, which grow linearly in the sequence length.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "arguments.h"
#include "tessera/backend/cpu/attention.h"
#include "tessera/backend/cpu/attention_grad.h"
#include "tessera/backend/cpu/fma_peak.h"

namespace tessera::cpu {
namespace {

template <class F>
double best_seconds(std::chrono::milliseconds budget, F&& f) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (const auto start = Clock::now(); Clock::now() - start < budget;) {
    const auto begin = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

void run_case(ThreadPool& pool, const AttentionShape& shape, double peak, std::chrono::milliseconds budget) {
  const auto elems = [](std::int64_t n) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 97) / 97.0f - 0.5f;
    return v;
  };
  const auto qkv = elems(shape.batch * shape.seq * shape.qkv_width());
  const auto dout = elems(shape.batch * shape.seq * shape.out_width());
  auto out = dout, dqkv = qkv, lse = elems(shape.batch * shape.num_heads * shape.seq);
  const auto forward_bytes = attention_workspace_bytes(shape, DType::f32, pool.num_threads());
  const auto backward_bytes = attention_grad_workspace_bytes(shape, DType::f32, pool.num_threads());
  std::vector<std::byte> workspace(static_cast<std::size_t>(std::max(forward_bytes, backward_bytes)));
  const double forward =
      best_seconds(budget, [&] { attention<float>(pool, shape, qkv, out, lse, workspace); });
  const double backward = best_seconds(budget, [&] {
    attention_grad<float>(pool, shape, {.qkv = qkv, .out = out, .lse = lse, .dout = dout, .dqkv = dqkv},
                          workspace);
  });
  // A product over the visible half of the scores.
  const double t = static_cast<double>(shape.seq);
  const double product = t * (t + 1) * static_cast<double>(shape.batch * shape.num_heads * shape.head_dim);
  fmt::print("{:>6}{:>6}{:>6}{:>4}{:>6}{:>12.1f}{:>7.1f}%{:>12.1f}{:>7.1f}%{:>12.1f}{:>12.1f}\n", shape.seq,
             shape.batch, shape.num_heads, shape.num_kv_heads, shape.head_dim, 2 * product / forward / 1e9,
             200 * product / forward / peak, 5 * product / backward / 1e9, 500 * product / backward / peak,
             static_cast<double>(forward_bytes) / 1024, static_cast<double>(backward_bytes) / 1024);
}

void run(int num_threads, std::chrono::milliseconds budget) {
  ThreadPool pool(num_threads);
  double peak = 0;
  for (int i = 0; i < 5; ++i) peak = std::max(peak, measure_fma_peak(pool));
  fmt::print("\n{} thread(s), FMA peak {:.1f} GFLOP/s\n{:>6}{:>6}{:>6}{:>4}{:>6}{:>20}{:>20}{:>24}\n",
             num_threads, peak / 1e9, "T", "batch", "heads", "kv", "dim", "forward GFLOP/s",
             "backward GFLOP/s", "scratch KiB fwd, bwd");
  const auto shape = [](std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t kv,
                        std::int64_t dim) {
    return AttentionShape{batch, seq, heads, kv, dim, true, 1 / std::sqrt(static_cast<double>(dim))};
  };
  for (const std::int64_t seq : {256, 512, 1024, 2048, 4096}) {
    run_case(pool, shape(std::max<std::int64_t>(1, 1024 / seq), seq, 12, 12, 64), peak, budget);
  }
  run_case(pool, shape(1, 2048, 14, 2, 64), peak, budget);
  run_case(pool, shape(1, 2048, 8, 8, 128), peak, budget);
}

}  // namespace
}  // namespace tessera::cpu

int main(int argc, char** argv) {
  const std::chrono::milliseconds budget(
      tessera::bench::only_argument(argc, argv, 300, "bench_cpu_attention [MILLISECONDS]"));
  for (const int num_threads : {1, 2}) tessera::cpu::run(num_threads, budget);
}
