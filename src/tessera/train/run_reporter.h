// RunReporter: all that a run says and writes of its numbers: the start banner, the lines of metrics.jsonl,
// TensorBoard's events, and at the end the curve, results.json and the report. Made by rank 0 of a run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tessera/metrics/event_file.h"
#include "tessera/metrics/jsonl_log.h"
#include "tessera/metrics/start_banner.h"
#include "tessera/metrics/throughput.h"
#include "tessera/models/model.h"
#include "tessera/runtime/device.h"
#include "tessera/train/evaluate.h"
#include "tessera/train/trainer.h"
#include "tessera/train/training_step.h"

namespace tessera {

struct StepTaken {
  std::int64_t steps_done = 0;  // counting this one
  StepResult result;
  double learning_rate = 0;
  double seconds = 0;
};

struct RunStart {
  std::int64_t examples = 0;    // sequences of the training data
  std::int64_t first_step = 0;  // steps done before
  double peak_flops = 0;        // of all ranks together; 0: not known
};

class RunReporter {
 public:
  // Makes the folder of the run with run.yaml, config.json and plan.json, and says the banner. Config, model
  // and callbacks must outlive it.
  RunReporter(const RunConfig& config, const Model& model, const Device& device,
              const TrainCallbacks& callbacks, const RunStart& start);

  // Counts the step into the throughput.
  StepReport report(const StepTaken& step);
  // Keeps and shows it.
  void append(const StepReport& report);
  // Writes what describes the run as a whole, from all its lines, those before a resume included.
  void finish() const;

 private:
  void start_folder(const Device& device) const;
  void start_events(std::int64_t first_step);

  const RunConfig& config_;
  const Model& model_;
  const TrainCallbacks& callbacks_;
  const std::filesystem::path folder_;
  const RunSize size_;
  Throughput throughput_;
  const double flops_per_token_;
  const double peak_flops_;
  std::unique_ptr<JsonlLog> log_;
  std::unique_ptr<EventFile> events_;  // null: not asked for
};

// "7.2M parameters; planned memory 120 MB: weights ..."
std::string memory_line(const TrainingStep& step, const Communicator* world);

// "GPU memory: 12690 MB planned, 12800 MB taken from the driver, kernels' code included (570 MB were in use
// before)": whether a device with memory of its own has given out what was planned, by all ranks on it; code
// is about 100 MB. `used_before` is its used_bytes() before any of them made its `step`; `evaluator` may be
// null. Collective.
std::string memory_taken_line(const TrainingStep& step, const Evaluator* evaluator, std::int64_t used_before);

// Whether what finish() writes is there and no older than the log: a run may have ended between its last
// checkpoint and these.
bool has_summaries(const RunConfig& config);
void finish_report(const RunConfig& config, const Model& model, std::int64_t examples);

// Of a run that was resumed where no step is left: the numbers are those of the log's line of that step, as a
// run that was killed has lines beyond its checkpoint.
TrainSummary summary_of_log(const RunConfig& config, std::int64_t steps_done);

}  // namespace tessera
