// The output projection and its loss in chunks whose last one is smaller, of sizes that products cut in other
// ways than those of the others (gemm_blocks.h), against a naive loop.
#include "backend_cpu/kernel_run.h"
#include "tessera/backend/cpu/kernel_workspace.h"
#include "tessera/ops/cross_entropy.h"

namespace tessera::cpu {
namespace {

constexpr double kLossScale = 0.25;

struct ChunkCase {
  DType dtype;
  std::int64_t rows, width, vocab, chunk_rows;
};

struct HeadResults {
  double loss = 0;
  std::vector<double> dx, weight_grad;
};

HeadResults naive(const ChunkCase& c, const std::vector<double>& x, const std::vector<double>& weight,
                  const std::vector<double>& targets) {
  HeadResults results{0, std::vector<double>(x.size()), std::vector<double>(weight.size())};
  std::vector<double> probs(static_cast<std::size_t>(c.vocab));
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const auto target = static_cast<std::int64_t>(targets[r]);
    if (target < 0) continue;
    double total = 0;
    for (std::int64_t v = 0; v < c.vocab; ++v) {
      double logit = 0;
      for (std::int64_t i = 0; i < c.width; ++i) logit += x[r * c.width + i] * weight[v * c.width + i];
      probs[v] = std::exp(logit);
      total += probs[v];
    }
    results.loss -= kLossScale * std::log(probs[target] / total);
    for (std::int64_t v = 0; v < c.vocab; ++v) {
      const double grad = kLossScale * (probs[v] / total - (v == target ? 1.0 : 0.0));
      for (std::int64_t i = 0; i < c.width; ++i) {
        results.dx[r * c.width + i] += grad * weight[v * c.width + i];
        results.weight_grad[v * c.width + i] += grad * x[r * c.width + i];
      }
    }
  }
  return results;
}

// As much for 5 threads as for any fewer.
std::int64_t workspace_of_5(const Graph& graph, const Node& node) {
  return linear_cross_entropy_workspace_bytes(graph, node, 5);
}

TEST(CpuLinearCrossEntropy, TheLastChunkMayBeSmaller) {
  // In bf16 the smaller one takes more room for sums; in fp32 the whole of it is one block of the weight's
  // gradient, and half of another chunk is.
  for (const ChunkCase& c : {ChunkCase{DType::bf16, 130, 16, 300, 70}, {DType::f32, 2112, 8, 64, 1088}}) {
    const HostTensor x = random_tensor(c.dtype, {c.rows, c.width}, 1),
                     weight = random_tensor(c.dtype, {c.vocab, c.width}, 2),
                     targets = random_ids({c.rows}, 3, -1, c.vocab - 1),
                     scale({accumulate_dtype(c.dtype), {}}, {kLossScale}),
                     sums({accumulate_dtype(c.dtype), {c.vocab, c.width}},
                          std::vector<double>(static_cast<std::size_t>(c.vocab * c.width)));
    const HeadResults wanted = naive(c, x.values(), weight.values(), targets.values());
    const LinearCrossEntropyAttrs attrs{.chunk_rows = c.chunk_rows, .rows = c.rows};
    const auto loss = run_kernel(cpu::linear_cross_entropy, Op::linear_cross_entropy, attrs,
                                 {x, weight, targets, scale}, workspace_of_5);
    const auto grads = run_kernel(cpu::linear_cross_entropy_grad, Op::linear_cross_entropy_grad, attrs,
                                  {x, weight, targets, scale, sums}, workspace_of_5);
    const DType wide = accumulate_dtype(c.dtype);
    expect_close(loss[0], {wanted.loss}, wide);
    expect_close(grads[0], {wanted.loss}, wide);
    expect_close(grads[1], wanted.dx, c.dtype);
    expect_close(grads[2], wanted.weight_grad, wide, static_cast<double>(c.rows));
  }
}

}  // namespace
}  // namespace tessera::cpu
