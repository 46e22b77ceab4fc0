#include "tessera/backend/cpu/fma_peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "tessera/backend/cpu/simd.h"

namespace tessera::cpu {
namespace {

// Independent chains: two FMA units of latency four to five need at least ten in flight.
constexpr int kNumChains = 12;
constexpr std::int64_t kNumRounds = 1 << 16;
constexpr std::int64_t kFlopsPerRound = std::int64_t{2} * kNumChains * kLanes<float>;

// Returns a value that depends on every chain, and hides the arguments' values from the compiler, so that
// no chain is removed or folded.
[[gnu::noipa]] float run_chains(float factor, float term) {
  using V = typename Simd<float>::Vector;
  V chain[kNumChains];
  for (int c = 0; c < kNumChains; ++c) chain[c] = V{} + static_cast<float>(c);
  for (std::int64_t round = 0; round < kNumRounds; ++round) {
#pragma GCC unroll 12
    for (int c = 0; c < kNumChains; ++c) chain[c] = chain[c] * factor + term;
  }
  V total = {};
  for (int c = 0; c < kNumChains; ++c) total += chain[c];
  float sum = 0;
  for (int lane = 0; lane < kLanes<float>; ++lane) sum += total[lane];
  return sum;
}

}  // namespace

double measure_fma_peak(ThreadPool& pool) {
  using Clock = std::chrono::steady_clock;
  const std::int64_t tasks_per_try = 4 * pool.num_threads();
  std::atomic<float> sink = 0;  // an observed result on every thread, or the compiler drops the work
  double best_seconds = 1e30;
  const auto start = Clock::now();
  while (Clock::now() - start < std::chrono::milliseconds(20)) {
    const auto begin = Clock::now();
    // A factor below one and a small term keep every chain away from denormals and infinities.
    pool.for_each_task(tasks_per_try, [&](std::int64_t, int) {
      sink.store(run_chains(0.999f, 0.001f), std::memory_order_relaxed);
    });
    best_seconds = std::min(best_seconds, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return static_cast<double>(tasks_per_try * kNumRounds * kFlopsPerRound) / best_seconds;
}

}  // namespace tessera::cpu
