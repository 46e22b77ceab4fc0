#include "tessera/train/shrink.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"

namespace tessera {
namespace {

constexpr std::int64_t kHeads = 8, kHeadDim = 16, kLayersPerStage = 2, kVocabSize = 512;
constexpr std::int64_t kSeqLen = 64, kMicroBatch = 2, kSequences = 8, kSteps = 60;
constexpr std::int64_t kFfnMultiple = 16;  // even a cut over many ranks leaves whole vectors
constexpr std::int64_t kRowsPerRank = 8;   // of a padded vocabulary
constexpr std::int64_t kLogLines = 10;
constexpr double kMaxRate = 4e-3;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::vector<std::int64_t> prime_factors(std::int64_t number) {
  std::vector<std::int64_t> factors;
  for (std::int64_t p = 2; number > 1; ++p) {
    for (; number % p == 0; number /= p) factors.push_back(p);
  }
  std::ranges::reverse(factors);
  return factors;
}

void shrink_layout(ParallelKeys& parallel, std::int64_t ranks) {
  struct AxisSize {
    std::int64_t wanted, size = 1;
    // How far behind: infinite while a used axis has nothing, and more so the larger it was.
    std::pair<double, std::int64_t> lag() const {
      if (wanted == 1) return {0.0, 0};
      const double most = std::numeric_limits<double>::infinity();
      return {size == 1 ? most : std::log(double(wanted)) / std::log(double(size)), wanted};
    }
  };
  std::array<AxisSize, 3> axes = {{{parallel.tp}, {parallel.pp}, {parallel.dp}}};
  for (std::int64_t factor : prime_factors(ranks)) {
    std::ranges::max_element(axes, {}, &AxisSize::lag)->size *= factor;
  }
  parallel.tp = axes[0].size;
  parallel.pp = axes[1].size;
  parallel.dp = axes[2].size;
  if (parallel.zero1_group > 0) parallel.zero1_group = std::gcd(parallel.zero1_group, parallel.dp);
}

void shrink_model(ArchitectureKeys& model, const ParallelKeys& parallel) {
  AttentionKeys& attention = model.attention;
  const std::int64_t heads = round_up(kHeads, parallel.tp), width = heads * kHeadDim;
  if (attention.kv_heads > 0) {
    const std::int64_t queries_per_key = attention.heads / attention.kv_heads;
    attention.kv_heads = heads % queries_per_key == 0 ? heads / queries_per_key : 1;
  }
  attention.heads = heads;
  if (attention.head_dim > 0) attention.head_dim = kHeadDim;
  // A pair of elements at least, and no half one.
  const double pairs = std::round(attention.rotary_fraction * static_cast<double>(kHeadDim) / 2);
  attention.rotary_fraction = std::max(1.0, pairs) * 2 / static_cast<double>(kHeadDim);
  model.ffn_size = round_up(model.ffn_size * width / model.hidden_size, kFfnMultiple);
  model.hidden_size = width;
  model.layers = kLayersPerStage * parallel.pp;
  model.vocab_size = 0;
  if (model.vocab_multiple > 1) model.vocab_multiple = kRowsPerRank * parallel.tp;
}

void shrink_steps(RunConfig& config) {
  TrainKeys& train = config.train;
  const std::int64_t steps = std::min(train.steps, kSteps);
  // At least one step of what there was any of.
  const auto scaled = [&](std::int64_t count) {
    const double share = static_cast<double>(count) / static_cast<double>(train.steps);
    return static_cast<std::int64_t>(std::ceil(share * static_cast<double>(steps)));
  };
  config.schedule.warmup_steps = scaled(config.schedule.warmup_steps);
  config.schedule.constant_steps = scaled(config.schedule.constant_steps);
  config.schedule.decay_steps = scaled(config.schedule.decay_steps);
  train.steps = steps;
  train.log_every = std::max<std::int64_t>(1, steps / kLogLines);
  if (train.eval_every > 0) train.eval_every = steps;
  train.save_every = 0;
}

void shrink_batch(TrainKeys& train, std::int64_t recipe_dp, const ParallelKeys& parallel) {
  const std::int64_t micro_batches = train.global_batch / (train.micro_batch * recipe_dp);
  train.micro_batch = std::min(train.micro_batch, kMicroBatch);
  const std::int64_t together = train.micro_batch * parallel.dp;
  train.global_batch = together * std::min(micro_batches, std::max(2 * parallel.pp, kSequences / together));
  train.seq_len = std::min(train.seq_len, kSeqLen);
}

// To two digits, as people write rates.
double rounded(double rate) {
  return std::stod(fmt::format("{:.1e}", rate));
}

void raise_rate(RunConfig& config, std::int64_t recipe_width) {
  const auto width = static_cast<double>(config.model.architecture.hidden_size);
  const double lr = config.optimizer.lr;
  const double wider = lr * static_cast<double>(recipe_width) / width;
  config.optimizer.lr = std::max(lr, std::min(kMaxRate, rounded(wider)));
  config.schedule.min_lr = lr > 0 ? rounded(config.schedule.min_lr * config.optimizer.lr / lr) : 0;
}

// By which the new ones are divided; all else is checked of the config that comes out.
void check_sizes(const RunConfig& recipe) {
  const ArchitectureKeys& model = recipe.model.architecture;
  const TrainKeys& train = recipe.train;
  const auto require = [](const char* key, std::int64_t found) {
    TS_CHECK(found >= 1, "--shrink: {}: found {}, expected at least 1 in the recipe itself", key, found);
  };
  require("model.hidden_size", model.hidden_size);
  require("model.layers", model.layers);
  require("model.heads", model.attention.heads);
  require("model.ffn_size", model.ffn_size);
  TS_CHECK(model.attention.kv_heads == 0 || model.attention.heads % model.attention.kv_heads == 0,
           "--shrink: model.heads = {} is not a multiple of model.kv_heads = {}", model.attention.heads,
           model.attention.kv_heads);
  TS_CHECK(
      train.global_batch % (train.micro_batch * recipe.parallel.dp) == 0,
      "--shrink: train.global_batch = {} is not a multiple of train.micro_batch = {} times parallel.dp = {}",
      train.global_batch, train.micro_batch, recipe.parallel.dp);
}

}  // namespace

RunConfig shrunk(const RunConfig& recipe, std::int64_t ranks) {
  const ParallelKeys& p = recipe.parallel;
  TS_CHECK(
      ranks >= 1 && ranks <= p.tp * p.pp * p.dp,
      "--shrink: found {}, expected 1 to {}, the ranks of the recipe (parallel.tp = {} times pp = {} times "
      "dp = {})",
      ranks, p.tp * p.pp * p.dp, p.tp, p.pp, p.dp);
  TS_CHECK(recipe.model.config.empty(),
           "--shrink: the model comes from model.config = {}, expected one that is spelled out in the recipe",
           recipe.model.config);
  check_sizes(recipe);
  RunConfig config = recipe;
  shrink_layout(config.parallel, ranks);
  shrink_model(config.model.architecture, config.parallel);
  shrink_batch(config.train, p.dp, config.parallel);
  shrink_steps(config);
  config.model.architecture.max_positions = config.train.seq_len;
  config.model.weights.clear();
  config.pipeline.layers.clear();
  const std::int64_t most_chunks = config.parallel.pp > 1 ? kLayersPerStage : 0;
  config.pipeline.chunks = std::min(config.pipeline.chunks, most_chunks);
  config.data = {};
  config.data.kind = recipe.data.kind;
  config.device = DeviceName::cpu;
  config.train.out += "-shrunk";
  raise_rate(config, recipe.model.architecture.hidden_size);
  return config;
}

RunConfig load_shrunk_config(const std::filesystem::path& path, std::span<const std::string> overrides,
                             std::optional<std::int64_t> ranks,
                             const std::function<void(const std::string&)>& say) {
  if (!ranks) return load_run_config(path, overrides);
  RunConfig recipe;
  apply_yaml(recipe, read_file(path), path.string());
  RunConfig config = shrunk(recipe, *ranks);
  apply_overrides(config, overrides);
  std::int64_t& vocab_size = config.model.architecture.vocab_size;
  if (vocab_size == 0 && config.data.tokenizer.empty()) vocab_size = kVocabSize;
  validate(config);
  say(fmt::format("shrunk to {} ranks:", config.parallel.tp * config.parallel.pp * config.parallel.dp));
  for (const std::string& line : describe_changes(recipe, config)) say("  " + line);
  return config;
}

}  // namespace tessera
