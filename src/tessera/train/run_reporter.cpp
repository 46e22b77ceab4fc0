#include "tessera/train/run_reporter.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/mapped_file.h"
#include "tessera/base/parse_json.h"
#include "tessera/comm/device_communicator.h"
#include "tessera/metrics/curve_svg.h"
#include "tessera/metrics/human.h"
#include "tessera/metrics/process_memory.h"
#include "tessera/metrics/results_json.h"
#include "tessera/train/from_config.h"
#include "tessera/train/plan_summary.h"
#include "tessera/train/run_report.h"

namespace tessera {
namespace {

// With the plan, how its products were computed: the file that cuda.tuning names may change.
constexpr const char* kTuningFile = "products.tuning";

RunSize size_of(const RunConfig& config, std::int64_t examples) {
  RunSize size;
  size.examples = examples;
  size.batch_per_device = config.train.micro_batch;
  size.data_parallel = config.parallel.dp;
  size.accumulation = config.train.global_batch / (config.train.micro_batch * config.parallel.dp);
  size.steps = config.train.steps;
  size.seq_len = config.train.seq_len;
  return size;
}

double highest_throughput(const std::vector<StepReport>& reports) {
  double highest = 0;
  for (const StepReport& report : reports) highest = std::max(highest, report.peak_sequences_per_second);
  return highest;
}

std::string dataset_text(const DataKeys& data) {
  if (!data.blend.empty()) return joined(data.blend, " ");
  if (!data.texts.empty()) return joined(data.texts, " ");
  return data.shards.empty() ? data.prefix : data.shards;
}

constexpr const char* kLastSummary = "report.html";

ResultParameters result_parameters(const RunConfig& config, const Model& model, const RunSize& size) {
  const YAML::Node keys = YAML::Load(to_yaml(config));  // names as users write them
  ResultParameters parameters;
  parameters.config_json = model.config_json();
  parameters.model = parse_json(parameters.config_json).value("model_type", "");
  parameters.size = size;
  parameters.world_size = config.parallel.tp * config.parallel.pp * config.parallel.dp;
  parameters.seed = config.train.seed;
  parameters.warmup_steps = config.schedule.warmup_steps;
  parameters.optimizer = keys["optimizer"]["name"].as<std::string>();
  parameters.data_type = keys["precision"].as<std::string>();
  parameters.dataset = dataset_text(config.data);
  return parameters;
}

std::int64_t num_parameters(std::span<const Parameter> parameters) {
  std::int64_t count = 0;
  for (const Parameter& p : parameters) count += p.type.shape.num_elems();
  return count;
}

// From all lines of the log.
void write_summaries(const RunConfig& config, const Model& model, const RunSize& size) {
  const std::filesystem::path folder = config.train.out;
  const std::vector<StepReport> reports = read_jsonl_log(folder / kMetricsFile);
  TS_CHECK(!reports.empty(), "{} is gone: no curves and no report; the checkpoints are as they were saved",
           (folder / kMetricsFile).string());
  write_curve_svg(folder / "loss.svg", loss_chart(config.train.out, reports));
  write_file(folder / "results.json", results_json(result_parameters(config, model, size), reports));
  write_run_report(folder, folder / kLastSummary);
}

}  // namespace

RunReporter::RunReporter(const RunConfig& config, const Model& model, const Device& device,
                         const TrainCallbacks& callbacks, const RunStart& start)
    : config_(config),
      model_(model),
      callbacks_(callbacks),
      folder_(config.train.out),
      size_(size_of(config, start.examples)),
      throughput_(config.train.global_batch),
      flops_per_token_(training_flops(model, {1, config.train.seq_len}) /
                       static_cast<double>(config.train.seq_len)),
      peak_flops_(start.peak_flops) {
  start_folder(device);
  log_ = std::make_unique<JsonlLog>(folder_ / kMetricsFile, start.first_step);
  if (start.first_step > 0) {
    const double peak = highest_throughput(read_jsonl_log(folder_ / kMetricsFile));
    throughput_ = Throughput(config.train.global_batch, peak);
  }
  if (config.metrics.tensorboard) start_events(start.first_step);
  callbacks_.message(start_banner(size_));
}

void RunReporter::start_folder(const Device& device) const {
  create_folder(folder_, "train.out");
  write_file(folder_ / kRunConfigFile, to_yaml(config_));
  write_file(folder_ / "config.json", model_.config_json());
  const JobPlan job = plan_job(model_, training_graph_options(config_), layout_of(config_), device);
  write_file(folder_ / kPlanFile, to_json(summarize(job, device)));
  if (config_.device == DeviceName::cuda && !config_.cuda.tuning.empty()) {
    write_file(folder_ / kTuningFile, read_file(config_.cuda.tuning));
  }
}

void RunReporter::start_events(std::int64_t first_step) {
  events_ = std::make_unique<EventFile>(folder_ / "tensorboard", first_step);
  events_->append_text(wall_time_now(), first_step, "config", to_yaml(config_));
}

StepReport RunReporter::report(const StepTaken& step) {
  throughput_.add_step(step.seconds);
  const auto tokens_per_sequence = static_cast<double>(config_.train.seq_len);
  StepReport r;
  r.step = step.steps_done;
  r.total_steps = config_.train.steps;
  r.loss = step.result.loss;
  r.learning_rate = step.learning_rate;
  r.grad_norm = step.result.grad_norm;
  r.parameter_norm = step.result.parameter_norm;
  r.step_seconds = step.seconds;
  r.sequences_per_second = throughput_.sequences_per_second();
  r.peak_sequences_per_second = throughput_.peak();
  r.tokens_per_second = r.sequences_per_second * tokens_per_sequence;
  r.peak_share = peak_flops_ > 0 ? flops_per_token_ * r.tokens_per_second / peak_flops_ : 0;
  r.memory_bytes = process_memory().resident_bytes;
  r.seconds_left = throughput_.step_seconds() * static_cast<double>(config_.train.steps - step.steps_done);
  r.consumed_samples = step.steps_done * config_.train.global_batch;
  r.wall_time = wall_time_now();
  return r;
}

void RunReporter::append(const StepReport& report) {
  log_->append(report);
  if (events_)
    events_->append_scalars(report.wall_time, report.step, tagged_scalars(report, config_.metrics.tags));
  callbacks_.step(report);
}

void RunReporter::finish() const {
  write_summaries(config_, model_, size_);
}

bool has_summaries(const RunConfig& config) {
  const std::filesystem::path folder = config.train.out, log = folder / kMetricsFile,
                              last = folder / kLastSummary;
  if (!std::filesystem::exists(log)) return true;  // there is nothing to make them from
  return std::filesystem::exists(last) &&
         std::filesystem::last_write_time(last) >= std::filesystem::last_write_time(log);
}

void finish_report(const RunConfig& config, const Model& model, std::int64_t examples) {
  write_summaries(config, model, size_of(config, examples));
}

std::string memory_line(const TrainingStep& step, const Communicator* world) {
  const MemoryReport m = report_memory(step.executor().graph(), step.executor().plan());
  const std::string where = world ? fmt::format(" of rank 0 of {}", world->size()) : "";
  const auto bytes = [](std::int64_t count) { return human_bytes(static_cast<double>(count)); };
  return fmt::format(
      "{} parameters; planned memory{} {}: weights {}, gradients {}, optimizer {}, "
      "activations {}, temporaries {}, logits {}",
      human_count(static_cast<double>(num_parameters(step.parameters()))), where, bytes(m.total),
      bytes(m.weights), bytes(m.gradients), bytes(m.optimizer_state), bytes(m.activations_kept),
      bytes(m.temporaries), bytes(m.logits));
}

std::string memory_taken_line(const TrainingStep& step, const Evaluator* evaluator,
                              std::int64_t used_before) {
  const Device& device = step.executor().device();
  std::int64_t planned = step.executor().allocated_bytes() + (evaluator ? evaluator->allocated_bytes() : 0);
  std::int64_t num_ranks = 1;
  if (const RankGroups* const ranks = step.ranks()) {
    struct Share {
      std::uint64_t memory = 0;
      std::int64_t planned = 0;
    };
    if (ranks->messages() != nullptr) planned += ranks->messages()->reserved_bytes();
    const Share own{device.memory_id(), planned};
    std::vector<Share> all(static_cast<std::size_t>(ranks->world().size()));
    ranks->world().all_gather(&own, all.data(), {1, sizeof(own) / sizeof(std::int32_t)}, DType::i32);
    std::erase_if(all, [&](const Share& share) { return share.memory != own.memory; });
    num_ranks = std::ssize(all);
    planned = 0;
    for (const Share& share : all) planned += share.planned;
  }
  const auto mb = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  return fmt::format(
      "GPU memory: {:.0f} MB planned{}, {:.0f} MB taken from the driver, kernels' code included "
      "({:.0f} MB were in use before)",
      mb(planned), num_ranks > 1 ? fmt::format(" by {} ranks", num_ranks) : "",
      mb(device.used_bytes() - used_before), mb(used_before));
}

TrainSummary summary_of_log(const RunConfig& config, std::int64_t steps_done) {
  TrainSummary summary;
  summary.steps_done = steps_done;
  summary.last_loss = summary.last_eval_loss = std::numeric_limits<double>::quiet_NaN();
  for (const StepReport& report : read_jsonl_log(std::filesystem::path(config.train.out) / kMetricsFile)) {
    if (report.step != steps_done) continue;
    summary.last_loss = report.loss;
    summary.last_eval_loss = report.eval_loss.value_or(summary.last_eval_loss);
    summary.last_eval_perplexity = report.eval_perplexity.value_or(0);
  }
  return summary;
}

}  // namespace tessera
