#include "tessera/metrics/results_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/parse_json.h"
#include "tessera/metrics/throughput.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// "2024-05-17T08:30:00.250000+00:00"
std::string utc_text(double wall_time) {
  const auto whole = static_cast<std::time_t>(std::floor(wall_time));
  std::tm utc{};
  ::gmtime_r(&whole, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}+00:00", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     static_cast<std::int64_t>((wall_time - std::floor(wall_time)) * 1e6));
}

// Number of the epoch, from 0, that a step belongs to.
std::int64_t epoch_of(const RunSize& size, std::int64_t step) {
  return size.steps_per_epoch() == 0 ? 0 : (step - 1) / size.steps_per_epoch();
}

Json metric(const RunSize& size, const StepReport& at, const char* name, double value, const char* units) {
  Json json;
  json["MetricName"] = name;
  json["MeasuredValue"] = value;
  json["Units"] = units;
  json["Timestamp"] = utc_text(at.wall_time);
  json["AdditionalData"] = {{"Epoch", epoch_of(size, at.step)},
                            {"Global step", at.step},
                            {"Microstep", at.step * size.accumulation}};
  return json;
}

Json parameters_json(const ResultParameters& parameters) {
  const RunSize& size = parameters.size;
  Json json;
  json["Model"] = parameters.model;
  json["Model configuration"] = parse_ordered_json(parameters.config_json);
  json["World size"] = parameters.world_size;
  json["Data parallel degree"] = size.data_parallel;
  json["Batch size"] = size.batch_per_device;
  json["Total steps"] = size.steps;
  json["Seed"] = parameters.seed;
  json["Optimizer"] = parameters.optimizer;
  json["Data type"] = parameters.data_type;
  json["Gradient accumulation microsteps"] = size.accumulation;
  json["Warmup steps"] = parameters.warmup_steps;
  json["Dataset"] = parameters.dataset;
  json["Environment variables"] = Json::object();  // none changes a run
  json["Sequence length"] = size.seq_len;
  return json;
}

}  // namespace

ThroughputSummary summarize_throughput(std::span<const StepReport> reports, std::int64_t sequences_per_step) {
  ThroughputSummary summary;
  const std::size_t skipped = reports.size() > Throughput::kWindow ? Throughput::kWindow : 0;
  double counted = 0;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    summary.seconds += reports[i].step_seconds;
    if (i >= skipped) counted += reports[i].step_seconds;
    summary.peak = std::max(summary.peak, reports[i].sequences_per_second);
  }
  const auto sequences =
      static_cast<double>(sequences_per_step) * static_cast<double>(reports.size() - skipped);
  summary.average = counted > 0 ? sequences / counted : 0;
  return summary;
}

std::string results_json(const ResultParameters& parameters, std::span<const StepReport> reports) {
  TS_ASSERT(!reports.empty());
  const RunSize& size = parameters.size;
  Json metrics = Json::array();
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const bool last_of_epoch = size.steps_per_epoch() > 0 && reports[i].step % size.steps_per_epoch() == 0;
    if (!last_of_epoch) continue;
    metrics.push_back(metric(size, reports[i], "Loss", reports[i].loss, ""));
    metrics.push_back(metric(size, reports[i], "Throughput", reports[i].sequences_per_second, "seq/s"));
  }
  const StepReport& last = reports.back();
  const ThroughputSummary speed = summarize_throughput(reports, size.total_batch());
  metrics.push_back(metric(size, last, "Final loss", last.loss, ""));
  metrics.push_back(metric(size, last, "Time to train", speed.seconds / 60, "minutes"));
  metrics.push_back(metric(size, last, "Average throughput", speed.average, "seq/s"));
  metrics.push_back(metric(size, last, "Peak throughput", speed.peak, "seq/s"));
  Json json;
  json["results"] = {{"parameters", parameters_json(parameters)}, {"metrics", std::move(metrics)}};
  return json.dump(2) + "\n";
}

}  // namespace tessera
