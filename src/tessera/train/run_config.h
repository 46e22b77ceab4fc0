// RunConfig: everything a training run is asked to do, as plain data.
//
// Read from YAML and from key=value overrides by load_run_config, which refuses what the schema does not
// know; used by `tessera train`, `plan`, `eval` and golden_check. The enums hold the names a user writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "tessera/train/cuda_keys.h"
#include "tessera/train/data_keys.h"

namespace tessera {

enum class ModelTypeName { llama, gpt2, qwen2 };
enum class ActivationName { silu, gelu_tanh, gelu_erf };
enum class OptimizerName { adamw, lamb, sgd };
enum class DecayName { constant, linear, cosine };
enum class PrecisionName { fp32, bf16 };
enum class DeviceName { cpu, cuda, null };
enum class ScheduleName { gpipe, one_f_one_b, interleaved };

struct AttentionKeys {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t head_dim = 0;  // 0: hidden_size / heads
  double rope_theta = 10000.0;
  bool qkv_bias = false;
  bool operator==(const AttentionKeys&) const = default;
};

// The keys model.* that stand in for a config.json; they stay at their defaults when there is one.
struct ArchitectureKeys {
  ModelTypeName type = ModelTypeName::llama;
  std::int64_t hidden_size = 0, layers = 0, ffn_size = 0;
  std::int64_t vocab_size = 0;      // 0: the tokenizer's
  std::int64_t vocab_multiple = 1;  // of gpt2: the embedding's rows are padded to a multiple of it
  std::int64_t max_positions = 0;   // 0: train.seq_len
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  ActivationName activation = ActivationName::silu;
  double dropout = 0.0;  // of gpt2: of the embedding and of both halves of a block
  AttentionKeys attention;
  bool operator==(const ArchitectureKeys&) const = default;
};

struct ModelKeys {
  std::string config;   // a Hugging Face config.json or its folder; empty: `architecture`
  std::string weights;  // a Hugging Face folder or a checkpoint; empty: initial weights from the seed
  double init_std = 0.02;
  ArchitectureKeys architecture;
  bool operator==(const ModelKeys&) const = default;
};

struct TrainKeys {
  std::int64_t steps = 1000;
  std::int64_t seq_len = 256;
  std::int64_t global_batch = 8;  // sequences per optimizer step
  std::int64_t micro_batch = 1;   // sequences per forward and backward
  std::int64_t seed = 1234;
  std::int64_t eval_every = 100;  // 0: never
  std::int64_t eval_batches = 8;
  std::int64_t save_every = 500;  // 0: only at the end
  std::int64_t keep_last = 2;     // 0: all
  std::int64_t log_every = 10;
  std::string out = "runs/default";
  bool operator==(const TrainKeys&) const = default;
};

struct OptimizerKeys {
  OptimizerName name = OptimizerName::adamw;
  double lr = 3e-4;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;  // 0: off
  bool decay_1d = false;   // whether norms' weights and biases decay too
  double momentum = 0.9;   // of sgd
  bool trust_clip = true;  // of lamb
  PrecisionName state_dtype = PrecisionName::fp32;
  bool operator==(const OptimizerKeys&) const = default;
};

struct ScheduleKeys {
  DecayName decay = DecayName::cosine;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  // 0: train.steps
  double min_lr = 0.0;
  bool operator==(const ScheduleKeys&) const = default;
};

// How many ranks, and what is cut over them; their product is the number of ranks.
struct ParallelKeys {
  std::int64_t tp = 1, pp = 1, dp = 1;
  bool sequence = false;
  bool zero1 = false;
  std::int64_t zero1_group = 0;  // dp ranks that share one copy of the optimizer state; 0: all
  std::int64_t bucket_mb = 64;
  bool operator==(const ParallelKeys&) const = default;
};

struct PipelineKeys {
  ScheduleName schedule = ScheduleName::one_f_one_b;
  std::int64_t chunks = 0;  // 0: 2 if interleaved and there are layers enough, else 1
  std::string layers;       // "10,12,12,10": of every stage; empty: even by cost
  bool operator==(const PipelineKeys&) const = default;
};

struct RunConfig {
  ModelKeys model;
  DataKeys data;
  TrainKeys train;
  OptimizerKeys optimizer;
  ScheduleKeys schedule;
  ParallelKeys parallel;
  PipelineKeys pipeline;
  CudaKeys cuda;
  PrecisionName precision = PrecisionName::fp32;
  DeviceName device = DeviceName::cpu;
  std::string recompute = "none";  // or "selective", "full", a list of op names
  std::int64_t threads = 0;        // 0: all cores
  bool operator==(const RunConfig&) const = default;
};

// The file, then the overrides in their order, then validate.
RunConfig load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides);

// The parts of it; neither validates. `name` stands for the file in messages.
void apply_yaml(RunConfig& config, std::string_view yaml, const std::string& name);
void apply_overrides(RunConfig& config, std::span<const std::string> overrides);

// Refuses keys that contradict each other, naming both. Paths are checked by whoever opens them.
void validate(const RunConfig& config);

// The inline model with every "0: from elsewhere" filled in. tokenizer_vocab_size is 0 without a tokenizer.
ArchitectureKeys resolved_architecture(const RunConfig& config, std::int64_t tokenizer_vocab_size);

std::string describe_run_config();             // every key, its default and its meaning, for --help
std::string to_yaml(const RunConfig& config);  // every key; loads to the same config

}  // namespace tessera
