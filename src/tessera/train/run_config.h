// RunConfig: everything a training run is asked to do, as plain data.
//
// Read from YAML and from key=value overrides by load_run_config, which refuses what the schema does not
// know; used by `tessera train`, `plan`, `eval` and golden_check. The enums hold the names a user writes;
// train/ turns them into the components' own types. The larger groups of keys have files of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/train/cuda_keys.h"
#include "tessera/train/data_keys.h"
#include "tessera/train/metrics_keys.h"
#include "tessera/train/model_keys.h"
#include "tessera/train/optimizer_keys.h"

namespace tessera {

enum class DeviceName { cpu, cuda, null };
enum class ScheduleName { gpipe, one_f_one_b, interleaved };

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
  MetricsKeys metrics;
  PrecisionName precision = PrecisionName::fp32;
  DeviceName device = DeviceName::cpu;
  std::string recompute = "none";  // or "selective", "full", a list of op names
  std::int64_t threads = 0;        // 0: this rank's part of the cores
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

std::string describe_run_config();  // every key, its default and its meaning, for --help
// "train.steps: 1000 -> 60" for every key with another value, in the order of --help.
std::vector<std::string> describe_changes(const RunConfig& before, const RunConfig& after);
std::string to_yaml(const RunConfig& config);  // every key; loads to the same config

}  // namespace tessera
