#include "tessera/train/run_config.h"

#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/train/config_schema.h"
#include "tessera/train/config_yaml.h"

namespace tessera {
namespace {

// Far beyond any model there is, and small enough that a slip such as a digit too many is refused here and
// not met as an overflow in the sizes multiplied from these.
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxIds = std::numeric_limits<std::int32_t>::max();  // ids are int32
constexpr std::int64_t kMaxTokens = 1 << 24;                                // of a sequence
constexpr std::int64_t kMaxBatch = 1 << 24;                                 // sequences

constexpr NumberRange kPositive{.min = 0, .above_min = true};
constexpr NumberRange kNotNegative{.min = 0};
constexpr NumberRange kFraction{.min = 0, .max = 1, .below_max = true};

// Keys that describe the architecture; with model.config they must keep their defaults.
void declare_architecture(ConfigSchema& s, ArchitectureKeys& model) {
  AttentionKeys& attention = model.attention;
  s.choice("model.type", &model.type, "kind of model", {"llama", "gpt2", "qwen2"});
  s.integer("model.hidden_size", &model.hidden_size, "width of the residual stream",
            {.min = 0, .max = kMaxWidth});
  s.integer("model.layers", &model.layers, "transformer blocks", {.min = 0, .max = kMaxLayers});
  s.integer("model.heads", &attention.heads, "query heads", {.min = 0, .max = kMaxWidth});
  s.integer("model.kv_heads", &attention.kv_heads, "key and value heads; 0: heads",
            {.min = 0, .max = kMaxWidth});
  s.integer("model.head_dim", &attention.head_dim, "width of a head; 0: hidden_size / heads",
            {.min = 0, .max = kMaxWidth});
  s.integer("model.ffn_size", &model.ffn_size, "inner width of the MLP", {.min = 0, .max = 16 * kMaxWidth});
  s.integer("model.vocab_size", &model.vocab_size, "tokens; 0: the tokenizer's", {.min = 0, .max = kMaxIds});
  s.integer("model.vocab_multiple", &model.vocab_multiple,
            "gpt2: rows of the embedding are padded to a multiple of it; padding is never predicted",
            {.min = 1, .max = 1 << 20});
  s.integer("model.max_positions", &model.max_positions, "longest sequence; 0: train.seq_len",
            {.min = 0, .max = kMaxTokens});
  s.number("model.norm_eps", &model.norm_eps, "epsilon of the norms", kPositive);
  s.number("model.rope_theta", &attention.rope_theta, "base of the rotary angles", kPositive);
  s.boolean("model.tie_embeddings", &model.tie_embeddings, "share the embedding with the output head");
  s.choice("model.activation", &model.activation, "nonlinearity of the MLP",
           {"silu", "gelu_tanh", "gelu_erf"});
  s.number("model.dropout", &model.dropout,
           "gpt2: share of the embedding and of each block's halves that drops", kFraction);
  s.boolean("model.qkv_bias", &attention.qkv_bias, "biases on the query, key and value projections");
}

void declare_model(ConfigSchema& s, ModelKeys& model) {
  s.text("model.config", &model.config, "Hugging Face config.json or its folder, instead of the keys below");
  declare_architecture(s, model.architecture);
  s.number("model.init_std", &model.init_std, "standard deviation of the initial weights", kPositive);
  s.text("model.weights", &model.weights, "Hugging Face folder or checkpoint to start from");
}

void declare_train(ConfigSchema& s, TrainKeys& train) {
  s.integer("train.steps", &train.steps, "optimizer steps", {.min = 1});
  s.integer("train.seq_len", &train.seq_len, "tokens per sequence", {.min = 1, .max = kMaxTokens});
  s.integer("train.global_batch", &train.global_batch, "sequences per step", {.min = 1, .max = kMaxBatch});
  s.integer("train.micro_batch", &train.micro_batch, "sequences per forward and backward",
            {.min = 1, .max = kMaxBatch});
  s.integer("train.seed", &train.seed, "seed of weights and data order", {.min = 0});
  s.integer("train.eval_every", &train.eval_every, "steps between evaluations; 0: never", {.min = 0});
  s.integer("train.eval_batches", &train.eval_batches, "batches per evaluation", {.min = 1});
  s.integer("train.save_every", &train.save_every, "steps between checkpoints; 0: only the last", {.min = 0});
  s.integer("train.keep_last", &train.keep_last, "checkpoints to keep; 0: all", {.min = 0});
  s.integer("train.log_every", &train.log_every, "steps between log lines", {.min = 1});
  s.text("train.out", &train.out, "folder of the run");
}

void declare_optimizer(ConfigSchema& s, OptimizerKeys& optimizer) {
  s.choice("optimizer.name", &optimizer.name, "update rule", {"adamw", "lamb", "sgd"});
  s.number("optimizer.lr", &optimizer.lr, "peak learning rate", kNotNegative);
  s.number("optimizer.beta1", &optimizer.beta1, "decay of the first moment", kFraction);
  s.number("optimizer.beta2", &optimizer.beta2, "decay of the second moment", kFraction);
  s.number("optimizer.eps", &optimizer.eps, "added to the root of the second moment", kPositive);
  s.number("optimizer.weight_decay", &optimizer.weight_decay, "decay of the weights", kNotNegative);
  s.number("optimizer.clip_norm", &optimizer.clip_norm, "largest global gradient norm; 0: off", kNotNegative);
  s.boolean("optimizer.decay_1d", &optimizer.decay_1d, "decay norms' weights and biases too");
  s.number("optimizer.momentum", &optimizer.momentum, "of sgd", kFraction);
  s.boolean("optimizer.trust_clip", &optimizer.trust_clip, "lamb never lengthens a step, only shortens it");
  s.choice("optimizer.state_dtype", &optimizer.state_dtype,
           "of moments and of the weights that are updated; bf16: no master weights", {"fp32", "bf16"});
}

void declare_schedule(ConfigSchema& s, ScheduleKeys& schedule) {
  s.choice("schedule.decay", &schedule.decay, "shape after the warm-up", {"constant", "linear", "cosine"});
  s.integer("schedule.warmup_steps", &schedule.warmup_steps, "steps of linear warm-up", {.min = 0});
  s.integer("schedule.decay_steps", &schedule.decay_steps, "step where min_lr is reached; 0: train.steps",
            {.min = 0});
  s.number("schedule.min_lr", &schedule.min_lr, "learning rate at the end of the decay", kNotNegative);
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
  s.integer("parallel.bucket_mb", &parallel.bucket_mb, "MiB of gradients in one collective", {.min = 1});
  s.choice("pipeline.schedule", &pipeline.schedule, "order of the micro-batches",
           {"gpipe", "1f1b", "interleaved"});
  s.integer("pipeline.chunks", &pipeline.chunks, "stages per rank; 0: 2 if interleaved, else 1",
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
  s.choice("precision", &config.precision, "of weights and activations", {"fp32", "bf16"});
  s.choice("device", &config.device, "where the plan runs; null: nowhere, memory and costs only",
           {"cpu", "cuda", "null"});
  s.text("recompute", &config.recompute,
         "what backward computes again: none, selective (attention, norms, activations), full, or op names");
  s.integer("threads", &config.threads, "worker threads; 0: all cores", {.min = 0, .max = 4096});
  return s;
}

void validate_inline_sizes(const RunConfig& config) {
  const ArchitectureKeys& model = config.model.architecture;
  const AttentionKeys& attention = model.attention;
  const auto require = [](const char* key, std::int64_t found) {
    TS_CHECK(found >= 1, "{}: found {}, expected at least 1 (or give model.config)", key, found);
  };
  require("model.hidden_size", model.hidden_size);
  require("model.layers", model.layers);
  require("model.heads", attention.heads);
  require("model.ffn_size", model.ffn_size);
  TS_CHECK(attention.head_dim > 0 || model.hidden_size % attention.heads == 0,
           "model.hidden_size = {} is not a multiple of model.heads = {} (or give model.head_dim)",
           model.hidden_size, attention.heads);
  TS_CHECK(attention.kv_heads == 0 || attention.heads % attention.kv_heads == 0,
           "model.heads = {} is not a multiple of model.kv_heads = {}", attention.heads, attention.kv_heads);
  TS_CHECK(model.max_positions == 0 || config.train.seq_len <= model.max_positions,
           "train.seq_len = {} is beyond model.max_positions = {}", config.train.seq_len,
           model.max_positions);
}

void validate_inline_type(const ArchitectureKeys& model) {
  const AttentionKeys& attention = model.attention;
  if (model.type != ModelTypeName::gpt2) {
    TS_CHECK(model.activation == ActivationName::silu,
             "model.activation is not silu, the activation of model.type = llama and qwen2");
    TS_CHECK(model.dropout == 0,
             "model.dropout = {} does not go with model.type = llama and qwen2, which drop nothing",
             model.dropout);
    TS_CHECK(model.vocab_multiple == 1,
             "model.vocab_multiple = {} does not go with model.type = llama and qwen2, whose embedding is "
             "not padded",
             model.vocab_multiple);
    const std::int64_t head_dim =
        attention.head_dim > 0 ? attention.head_dim : model.hidden_size / attention.heads;
    TS_CHECK(head_dim % 2 == 0,
             "model.head_dim = {} (or model.hidden_size / model.heads) is odd: rotary angles need pairs",
             head_dim);
    return;
  }
  TS_CHECK(model.activation != ActivationName::silu,
           "model.activation = silu does not go with model.type = gpt2: expected gelu_tanh or gelu_erf");
  TS_CHECK(attention.rope_theta == AttentionKeys{}.rope_theta,
           "model.rope_theta does not go with model.type = gpt2, which learns its positions");
  TS_CHECK(attention.kv_heads == 0 || attention.kv_heads == attention.heads,
           "model.kv_heads = {} does not go with model.type = gpt2, which has as many as model.heads = {}",
           attention.kv_heads, attention.heads);
  TS_CHECK(attention.head_dim == 0 || attention.head_dim * attention.heads == model.hidden_size,
           "model.head_dim = {} does not go with model.type = gpt2: expected model.hidden_size / model.heads",
           attention.head_dim);
}

void validate_model(const RunConfig& config) {
  if (config.model.config.empty()) {
    validate_inline_sizes(config);
    validate_inline_type(config.model.architecture);
    return;
  }
  ArchitectureKeys architecture;
  ConfigSchema schema;
  declare_architecture(schema, architecture);
  architecture = config.model.architecture;
  for (const ConfigKey& key : schema.keys()) {
    TS_CHECK(is_default(key),
             "model.config and {} are both given: expected the architecture from one of them", key.path);
  }
}

void validate_schedule(const RunConfig& config) {
  const ScheduleKeys& schedule = config.schedule;
  if (schedule.decay == DecayName::constant) {
    TS_CHECK(schedule.min_lr == 0, "schedule.min_lr = {} has no effect with schedule.decay = constant",
             schedule.min_lr);
    return;
  }
  const bool own_end = schedule.decay_steps > 0;
  const std::int64_t end = own_end ? schedule.decay_steps : config.train.steps;
  TS_CHECK(schedule.warmup_steps <= end, "schedule.warmup_steps = {} is beyond {} = {}",
           schedule.warmup_steps, own_end ? "schedule.decay_steps" : "train.steps", end);
  TS_CHECK(schedule.min_lr <= config.optimizer.lr, "schedule.min_lr = {} is above optimizer.lr = {}",
           schedule.min_lr, config.optimizer.lr);
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
  validate_model(config);
  validate_data(config.data);
  const TrainKeys& train = config.train;
  TS_CHECK(train.global_batch % (train.micro_batch * config.parallel.dp) == 0,
           "train.global_batch = {} is not a multiple of train.micro_batch = {} times parallel.dp = {}",
           train.global_batch, train.micro_batch, config.parallel.dp);
  validate_schedule(config);
}

ArchitectureKeys resolved_architecture(const RunConfig& config, std::int64_t tokenizer_vocab_size) {
  ArchitectureKeys model = config.model.architecture;
  AttentionKeys& attention = model.attention;
  if (attention.kv_heads == 0) attention.kv_heads = attention.heads;
  if (attention.head_dim == 0) attention.head_dim = model.hidden_size / attention.heads;
  if (model.vocab_size == 0) model.vocab_size = tokenizer_vocab_size;
  if (model.max_positions == 0) model.max_positions = config.train.seq_len;
  if (model.type != ModelTypeName::llama) attention.qkv_bias = true;  // part of gpt2 and of qwen2
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

std::string to_yaml(const RunConfig& config) {
  RunConfig copy = config;
  return to_yaml(run_config_schema(copy));
}

}  // namespace tessera
