#include "tessera/train/run_config.h"

#include <array>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/train/config_schema.h"
#include "tessera/train/config_yaml.h"

namespace tessera {
namespace {

// Far beyond any run there is; see models/size_limits.h.
constexpr std::int64_t kMaxBatch = 1 << 24;  // sequences
constexpr std::int64_t kMaxRanks = 1 << 30;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 34;  // at a time, of all dp ranks

void declare_train(ConfigSchema& s, TrainKeys& train) {
  s.integer("train.steps", &train.steps, "optimizer steps", {.min = 1});
  s.integer("train.seq_len", &train.seq_len, "tokens per sequence", {.min = 1, .max = kMaxPositions});
  s.integer("train.global_batch", &train.global_batch, "sequences per step", {.min = 1, .max = kMaxBatch});
  s.integer("train.micro_batch", &train.micro_batch, "sequences per forward and backward",
            {.min = 1, .max = kMaxBatch});
  s.integer("train.seed", &train.seed, "seed of weights and data order", {.min = 0});
  s.integer("train.eval_every", &train.eval_every, "steps between evaluations; 0: never", {.min = 0});
  s.integer("train.eval_batches", &train.eval_batches, "batches per evaluation", {.min = 1});
  s.integer("train.save_every", &train.save_every, "steps between checkpoints; 0: only the last", {.min = 0});
  s.integer("train.keep_last", &train.keep_last, "checkpoints to keep; 0: all", {.min = 0, .max = 1 << 30});
  s.integer("train.log_every", &train.log_every, "steps between log lines", {.min = 1});
  s.text("train.out", &train.out, "folder of the run");
}

void declare_parallel(ConfigSchema& s, ParallelKeys& parallel, PipelineKeys& pipeline) {
  const IntegerRange ranks{.min = 1, .max = 1 << 20};
  s.integer("parallel.tp", &parallel.tp, "ranks that share every layer", ranks);
  s.integer("parallel.pp", &parallel.pp, "pipeline stages, each with some of the layers", ranks);
  s.integer("parallel.dp", &parallel.dp, "copies of the model, each with its part of the batch", ranks);
  s.boolean("parallel.sequence", &parallel.sequence,
            "norms, dropout and residuals cut over tp too, by position");
  s.boolean("parallel.zero1", &parallel.zero1, "optimizer state cut over dp");
  s.integer("parallel.zero1_group", &parallel.zero1_group,
            "dp ranks that share one copy of the optimizer state; 0: all", {.min = 0, .max = 1 << 20});
  s.integer("parallel.bucket_mb", &parallel.bucket_mb, "MiB of gradients in one collective",
            {.min = 1, .max = 1 << 20});
  s.choice("pipeline.schedule", &pipeline.schedule, "order of the micro-batches",
           {"gpipe", "1f1b", "interleaved"});
  s.integer("pipeline.chunks", &pipeline.chunks,
            "stages per rank; 0: 2 if interleaved and there are layers enough, else 1",
            {.min = 0, .max = 1024});
  s.text("pipeline.layers", &pipeline.layers, "layers of every stage, e.g. 10,12,12,10; empty: even by cost");
}

ConfigSchema run_config_schema(RunConfig& config) {
  ConfigSchema s;
  declare_model(s, config.model);
  declare_data(s, config.data);
  declare_train(s, config.train);
  declare_optimizer(s, config.optimizer);
  declare_schedule(s, config.schedule);
  declare_parallel(s, config.parallel, config.pipeline);
  declare_cuda(s, config.cuda);
  declare_metrics(s, config.metrics);
  s.choice("precision", &config.precision, "of weights and activations", {"fp32", "bf16"});
  s.choice(
      "device", &config.device,
      "where the plan runs: cuda with the keys cuda.*, others without; null: nowhere, memory and costs only",
      {"cpu", "cuda", "null"});
  s.text("recompute", &config.recompute,
         "what backward computes again: none, selective (attention, norms, activations), full, or op names");
  s.integer("threads", &config.threads,
            "worker threads of a rank; 0: its part of the cores that the run may use on its machine",
            {.min = 0, .max = 4096});
  return s;
}

}  // namespace

void apply_yaml(RunConfig& config, std::string_view yaml, const std::string& name) {
  load_yaml(run_config_schema(config), yaml, name);
}

void apply_overrides(RunConfig& config, std::span<const std::string> overrides) {
  const ConfigSchema schema = run_config_schema(config);
  for (const std::string& assignment : overrides) apply_override(schema, assignment);
}

RunConfig load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  RunConfig config;
  apply_yaml(config, read_file(path), path.string());
  apply_overrides(config, overrides);
  validate(config);
  return config;
}

void validate(const RunConfig& config) {
  validate_model(config.model, config.train.seq_len);
  validate_data(config.data);
  const TrainKeys& train = config.train;
  TS_CHECK(!train.out.empty(), "train.out is empty: expected a folder for the run");
  TS_CHECK(train.global_batch % (train.micro_batch * config.parallel.dp) == 0,
           "train.global_batch = {} is not a multiple of train.micro_batch = {} times parallel.dp = {}",
           train.global_batch, train.micro_batch, config.parallel.dp);
  TS_CHECK(train.micro_batch * config.parallel.dp <= kMaxTokens / train.seq_len,
           "train.micro_batch = {} times parallel.dp = {} times train.seq_len = {} are more than {} tokens",
           train.micro_batch, config.parallel.dp, train.seq_len, kMaxTokens);
  const auto [tp, pp, dp] = std::array{config.parallel.tp, config.parallel.pp, config.parallel.dp};
  TS_CHECK(tp * pp * dp <= kMaxRanks, "parallel.tp = {} times pp = {} times dp = {} are more than {} ranks",
           tp, pp, dp, kMaxRanks);
  validate_optimizer(config.optimizer);
  if (config.optimizer.gradient_dtype == PrecisionName::bf16) {
    TS_CHECK(config.precision == PrecisionName::bf16,
             "optimizer.gradient_dtype = bf16 needs precision = bf16, found fp32");
    TS_CHECK(train.global_batch == train.micro_batch * config.parallel.dp,
             "optimizer.gradient_dtype = bf16 needs a step of one micro-batch, found {}: the gradients of "
             "several are added up in fp32",
             train.global_batch / (train.micro_batch * config.parallel.dp));
  }
  validate_schedule(config.schedule, config.optimizer, config.train.steps);
}

ArchitectureKeys resolved_architecture(const RunConfig& config, std::int64_t tokenizer_vocab_size) {
  ArchitectureKeys model = config.model.architecture;
  AttentionKeys& attention = model.attention;
  if (attention.kv_heads == 0) attention.kv_heads = attention.heads;
  if (attention.head_dim == 0) attention.head_dim = model.hidden_size / attention.heads;
  if (model.vocab_size == 0) model.vocab_size = tokenizer_vocab_size;
  if (model.max_positions == 0) model.max_positions = config.train.seq_len;
  if (model.type != ModelTypeName::llama) attention.qkv_bias = true;  // part of all the others
  TS_CHECK(model.vocab_size >= 1, "model.vocab_size: found 0, expected at least 1 (or give data.tokenizer)");
  TS_CHECK(tokenizer_vocab_size <= model.vocab_size,
           "model.vocab_size = {} is below the {} tokens of data.tokenizer = {}", model.vocab_size,
           tokenizer_vocab_size, config.data.tokenizer);
  return model;
}

std::string describe_run_config() {
  RunConfig defaults;
  return describe(run_config_schema(defaults));
}

std::vector<std::string> describe_changes(const RunConfig& before, const RunConfig& after) {
  RunConfig old = before, changed = after;
  const ConfigSchema old_schema = run_config_schema(old), new_schema = run_config_schema(changed);
  const auto text = [](const ConfigKey& key) {
    const std::string value = joined(key.current().texts, ",");
    return value.empty() ? std::string("none") : value;
  };
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < old_schema.keys().size(); ++i) {
    const std::string was = text(old_schema.keys()[i]), is = text(new_schema.keys()[i]);
    if (was != is) lines.push_back(fmt::format("{}: {} -> {}", old_schema.keys()[i].path, was, is));
  }
  return lines;
}

std::string to_yaml(const RunConfig& config) {
  RunConfig copy = config;
  return to_yaml(run_config_schema(copy));
}

}  // namespace tessera
