// train: a whole run: data, model, steps, evaluation, checkpoints, metrics. Says what happens through
// callbacks; printing is the caller's.
#pragma once

#include <functional>
#include <string>

#include "tessera/comm/communicator.h"
#include "tessera/metrics/step_report.h"
#include "tessera/plan/memory_report.h"
#include "tessera/train/run_config.h"

namespace tessera {

struct TrainCallbacks {
  std::function<void(const std::string&)> message = [](const std::string&) {};
  std::function<void(const StepReport&)> step = [](const StepReport&) {};
  std::function<bool()> stop_requested = [] { return false; };  // asked after steps, on every rank
};

struct TrainSummary {
  std::int64_t steps_done = 0;
  double last_loss = 0;             // NaN if none is known
  double last_eval_loss = 0;        // NaN if there was none
  double last_eval_perplexity = 0;  // of the tokens alone; with last_eval_loss
  bool stopped_early = false;
  std::string checkpoint;  // folder of the last one
};

// With `resume`, goes on from the newest checkpoint in train.out (from the start if there is none, but not if
// there are only broken ones); without it, a folder that already holds checkpoints is refused. A stop that is
// asked for ends the run with a checkpoint, after a step and without another evaluation.
//
// On several ranks each calls it with its communicator of all of them; messages, reports and files are rank
// 0's, and any rank may be asked to stop.
TrainSummary train(const RunConfig& config, bool resume, const TrainCallbacks& callbacks,
                   Communicator* world = nullptr);

// The names under which a checkpoint keeps what it was trained with.
inline constexpr const char* kModelConfigProperty = "config.json";
inline constexpr const char* kRunConfigProperty = "run.yaml";
inline constexpr const char* kSamplesProperty = "samples";      // of the data; megatron: of their order
inline constexpr const char* kCorporaProperty = "corpora";      // Samples::corpora
inline constexpr const char* kTokenizerProperty = "tokenizer";  // its digest

}  // namespace tessera
