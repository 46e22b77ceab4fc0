// results.json: what a run was and what it reached, in the shape that benchmark scripts of the NxD examples
// collect: {"results": {"parameters": {..}, "metrics": [{"MetricName", "MeasuredValue", "Units", "Timestamp",
// "AdditionalData"}, ..]}}. Written by the training loop's reporter at the end of a run.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/metrics/start_banner.h"
#include "tessera/metrics/step_report.h"

namespace tessera {

struct ResultParameters {
  std::string model;        // the family: "llama"
  std::string config_json;  // its Hugging Face config
  RunSize size;
  std::int64_t world_size = 1;
  std::int64_t seed = 0;
  std::int64_t warmup_steps = 0;
  std::string optimizer;
  std::string data_type;
  std::string dataset;
};

struct ThroughputSummary {
  double average = 0;  // sequences/s of all steps but the first ten of a run that has more
  double peak = 0;     // highest mean of ten steps
  double seconds = 0;  // of all steps
};
ThroughputSummary summarize_throughput(std::span<const StepReport> reports, std::int64_t sequences_per_step);

// Loss and throughput at the end of every epoch, and the final ones. `reports` are those of the whole run and
// not empty.
std::string results_json(const ResultParameters& parameters, std::span<const StepReport> reports);

}  // namespace tessera
