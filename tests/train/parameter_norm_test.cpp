// The norm of all weights that a step puts out, against a naive sum over whole tensors read before the step:
// on layouts where a weight is cut, copied, padded, tied over two stages, or rounded.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "tessera/models/gpt2.h"
#include "tessera/models/llama.h"
#include "tessera/train/from_config.h"
#include "tessera/train/run_ranks.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

constexpr std::int64_t kTokens = 8, kBatch = 8;

RunConfig config_of(const std::vector<std::string>& keys) {
  RunConfig config;
  config.train.seq_len = kTokens;
  config.train.global_batch = kBatch;
  config.metrics.tags = MetricTags::nemo;
  config.threads = 1;
  apply_overrides(config, keys);
  return config;
}

double naive_norm(const TrainingStep& step) {
  double sum = 0;
  for (const Parameter& parameter : step.parameters()) {
    for (const float x : step.weights().read(parameter.name)) sum += static_cast<double>(x) * x;
  }
  return std::sqrt(sum);
}

void expect_norms(const Model& model, const std::vector<std::string>& keys) {
  const RunConfig config = config_of(keys);
  std::mutex mutex;
  run_ranks(config, false, [&](Communicator* world) {
    const auto device = make_device(config);
    TrainingStep step(model, training_graph_options(config), layout_of(config), 1, *device, world);
    initialize_weights(step.weights(), step.parameters(), 7);
    for (std::int64_t s = 0; s < 3; ++s) {
      const double wanted = naive_norm(step);
      std::vector<std::int32_t> ids(kBatch * kTokens);
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>((i * i + 5 * i) % 53);
      const StepResult result = step.run(ids, ids, s, 0.05);
      const std::lock_guard lock(mutex);
      ASSERT_TRUE(result.parameter_norm.has_value());
      EXPECT_NEAR(*result.parameter_norm, wanted, 1e-6 * wanted) << "step " << s;
    }
  });
}

struct Case {
  const char* name;
  std::vector<std::string> keys;
};

class ParameterNormTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Layouts, ParameterNormTest,
    testing::Values(Case{"one_rank", {}}, Case{"bf16", {"precision=bf16"}}, Case{"tp2", {"parallel.tp=2"}},
                    Case{"tp3_more_ranks_than_key_heads", {"parallel.tp=3", "parallel.sequence=true"}},
                    Case{"dp2", {"parallel.dp=2"}}, Case{"pp2", {"parallel.pp=2"}},
                    Case{"zero1", {"parallel.dp=2", "parallel.zero1=true"}},
                    Case{"zero1_bf16",
                         {"parallel.dp=2", "parallel.tp=2", "parallel.zero1=true", "precision=bf16"}},
                    Case{"all", {"parallel.pp=2", "parallel.dp=2", "parallel.tp=2", "parallel.zero1=true"}},
                    Case{"interleaved", {"parallel.pp=2", "pipeline.schedule=interleaved", "parallel.tp=2"}},
                    Case{"lamb", {"optimizer.name=lamb", "parallel.tp=2", "parallel.pp=2"}},
                    Case{"sgd", {"optimizer.name=sgd", "parallel.dp=2"}}),
    [](const auto& one) { return one.param.name; });

TEST_P(ParameterNormTest, IsTheNaiveSumForLlama) {
  const auto model = make_llama({.vocab_size = 53,
                                 .hidden_size = 24,
                                 .layers = 4,
                                 .heads = 6,
                                 .kv_heads = 2,
                                 .head_dim = 4,
                                 .ffn_size = 50,
                                 .max_positions = 16});
  expect_norms(*model, GetParam().keys);
}

TEST_P(ParameterNormTest, IsTheNaiveSumForGpt2WithItsTiedEmbedding) {
  const auto model = make_gpt2(
      {.vocab_size = 53, .hidden_size = 24, .layers = 4, .heads = 6, .ffn_size = 50, .max_positions = 16});
  expect_norms(*model, GetParam().keys);
}

TEST(ParameterNorm, IsNotComputedUnlessItsTagIsAskedFor) {
  RunConfig config = config_of({});
  EXPECT_TRUE(training_graph_options(config).optimizer.parameter_norm);
  config.metrics.tags = MetricTags::nxd;
  EXPECT_FALSE(training_graph_options(config).optimizer.parameter_norm);
}

}  // namespace
}  // namespace tessera
