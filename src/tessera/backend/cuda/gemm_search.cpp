#include "tessera/backend/cuda/gemm_search.h"

#include <algorithm>
#include <vector>

#include "tessera/backend/cuda/cuda_call.h"
#include "tessera/backend/cuda/stopwatch.h"
#include "tessera/base/error.h"

namespace tessera::cuda {
namespace {

constexpr double kTrySeconds = 0.03, kSettleSeconds = 0.05, kTurnSeconds = 0.1;
constexpr int kTurns = 4;
constexpr std::size_t kFinalists = 3;
constexpr double kLeastGain = 0.003;  // less is noise

struct Candidate {
  cublasLtMatmulAlgo_t algorithm;
  double seconds = 0;  // of one product
  bool first = false;  // the library's own choice
};

class ProductSearch {
 public:
  ProductSearch(GemmPlans& plans, const GemmPlans::Seen& seen, cudaStream_t stream)
      : plans_(plans), seen_(seen), stream_(stream) {}

  // Fastest first; the library's own choice is among them.
  std::vector<Candidate> run() {
    std::vector<Candidate> all;
    for (const cublasLtMatmulAlgo_t& algorithm : plans_.candidates(seen_.product)) {
      all.push_back({algorithm, 0, all.empty()});
    }
    if (all.size() < 2) return all;
    time(all.front(), kTurnSeconds);  // to where the clock settles
    for (Candidate& candidate : all) candidate.seconds = time(candidate, kTrySeconds);
    const auto is_faster = [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; };
    std::ranges::stable_sort(all, is_faster);
    std::vector<Candidate> finalists;
    for (const Candidate& candidate : all) {
      if (finalists.size() < kFinalists || candidate.first) finalists.push_back(candidate);
    }
    for (Candidate& candidate : finalists) candidate.seconds = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      for (Candidate& candidate : finalists) {
        time(candidate, kSettleSeconds);
        candidate.seconds += time(candidate, kTurnSeconds) / kTurns;
      }
    }
    std::ranges::stable_sort(finalists, is_faster);
    return finalists;
  }

 private:
  // Mean over as many runs as take about so long.
  double time(const Candidate& candidate, double seconds) {
    constexpr double kUsualRate = 650e12;
    const int runs = std::max(2, static_cast<int>(seconds / (flops_of(seen_.product) / kUsualRate)));
    stopwatch_.mark(0, stream_);
    for (int i = 0; i < runs; ++i) plans_.run(seen_.product, candidate.algorithm, stream_, seen_.workspace);
    stopwatch_.mark(1, stream_);
    check_cuda(cudaStreamSynchronize(stream_), "time a product");
    return stopwatch_.seconds_between(0, 1) / runs;
  }

  GemmPlans& plans_;
  const GemmPlans::Seen& seen_;
  cudaStream_t stream_;
  Stopwatch stopwatch_;
};

}  // namespace

void search_products(GemmPlans& plans, cudaStream_t stream, GemmChoices& choices,
                     const std::function<void(const std::string&)>& say) {
  for (const GemmPlans::Seen& seen : plans.seen()) {
    const Product& p = seen.product;
    if (flops_of(p) < kLargeFlops || choices.algorithms.contains(GemmPlans::key_of(p))) continue;
    const std::vector<Candidate> ranked = ProductSearch(plans, seen, stream).run();
    if (ranked.empty()) continue;
    if (ranked.size() == 1) {  // nothing to time
      choices.algorithms[GemmPlans::key_of(p)] = ranked[0].algorithm;
      continue;
    }
    const Candidate& first = *std::ranges::find(ranked, true, &Candidate::first);
    const double gain = first.seconds / ranked.front().seconds - 1;
    const bool changes = gain >= kLeastGain;
    choices.algorithms[GemmPlans::key_of(p)] = (changes ? ranked.front() : first).algorithm;
    const auto rate = [&](const Candidate& c) { return flops_of(p) / c.seconds / 1e12; };
    say(fmt::format("{:6} x {:6} x {:6}{}{}{}  {:6.1f} TFLOP/s, best {:6.1f}{}", p.m, p.n, p.k,
                    p.a.transposed ? " A^T" : "", p.b.transposed ? " B^T" : "", p.accumulate ? " added" : "",
                    rate(first), rate(ranked.front()),
                    changes ? fmt::format(" (+{:.1f} %)", 100 * gain) : ""));
  }
}

}  // namespace tessera::cuda
