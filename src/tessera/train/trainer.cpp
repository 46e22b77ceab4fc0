#include "tessera/train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/data/prefetch_loader.h"
#include "tessera/metrics/golden_losses.h"
#include "tessera/optim/learning_rate.h"
#include "tessera/train/config_schema.h"
#include "tessera/train/evaluate.h"
#include "tessera/train/from_config.h"
#include "tessera/train/on_all_ranks.h"
#include "tessera/train/run_data.h"
#include "tessera/train/run_folder.h"
#include "tessera/train/run_reporter.h"
#include "tessera/train/run_tokenizer.h"
#include "tessera/train/same_run.h"
#include "tessera/train/saved_model.h"
#include "tessera/train/start_weights.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void say_what_is_passed_over(const RunConfig& config, const TrainCallbacks& callbacks) {
  if (config.device == DeviceName::cuda) return;
  const std::vector<std::string> keys = changed_keys(config.cuda);
  if (!keys.empty()) callbacks.message("not used without a GPU: " + joined(keys, ", "));
}

class Run {
 public:
  // `world` is null on one rank. Rank 0 speaks and writes; what it decides alone, it tells the others.
  Run(const RunConfig& config, bool resume, const TrainCallbacks& callbacks, Communicator* world)
      : config_(config),
        callbacks_(callbacks),
        world_(world),
        device_(make_computing_device(config, world)),
        model_(make_model(config, tokenizer_vocab_size(config.data))),
        folder_(config, resume, world) {
    if (speaks()) tokenizer_digest_ = tokenizer_digest(config.data.tokenizer);
    if (!config.model.config.empty()) token_ids_ = token_ids_of(config.model.config);
    const std::optional<std::filesystem::path>& newest = folder_.newest();
    // Before data are made ready for nothing.
    if (newest) check_same_run(*newest, config, *model_, callbacks.message);
    if (!newest) check_start_weights(config.model);
    if (speaks()) folder_.check_can_be_written();
    if (!config.metrics.golden_losses.empty()) open_golden_losses();
    if (world_) world_->barrier();  // nobody writes before all have looked
    RunDataOptions parts{.valid = config.train.eval_every > 0, .world = world, .message = callbacks.message};
    if (newest) {
      parts.check_corpora = [&](const std::string& now) { check_same_corpora(*newest, config.data, now); };
    }
    data_ = open_run_data(config, *model_, parts);
    used_before_ = device_->used_bytes();
    if (world_) world_->barrier();  // ranks may share its memory: nobody takes any before all have looked
    step_ = std::make_unique<TrainingStep>(*model_, training_graph_options(config), layout_of(config),
                                           static_cast<std::uint64_t>(config.train.seed), *device_, world_);
    say_what_is_passed_over(config, callbacks);
    say_what_no_decay_misses();
    say_broken_checkpoints(config.train.out, callbacks.message);
    callbacks_.message(memory_line(*step_, world_));
    if (step_->ranks() && !step_->ranks()->link_text().empty()) {
      callbacks_.message("ranks talk: " + step_->ranks()->link_text());
    }
    if (data_.valid) {
      make_evaluator();
    } else if (config.train.eval_every > 0) {
      callbacks_.message("nothing is held out: no validation");
    }
    if (newest) {
      restore(*newest);
    } else {
      if (resume) callbacks_.message(fmt::format("no checkpoint in {}: starting anew", config.train.out));
      start_weights(config, *model_, step_->weights(), step_->parameters(), callbacks.message);
    }
    const double peak_flops = peak_of_all_ranks();
    if (speaks() && first_step_ < config.train.steps) {
      folder_.lock();
      reporter_ = std::make_unique<RunReporter>(config, *model_, *device_, callbacks,
                                                RunStart{data_.train->per_epoch, first_step_, peak_flops});
    }
  }

  TrainSummary go();

 private:
  bool speaks() const { return world_ == nullptr || world_->rank() == 0; }
  bool stop_requested() const;
  void make_evaluator();
  double peak_of_all_ranks() const;
  void open_golden_losses();
  void say_what_no_decay_misses() const;
  void after_first_step();
  void restore(const std::filesystem::path& folder);
  void finish_what_was_killed();
  TrainSummary nothing_to_do();
  std::optional<EvaluatedLoss> evaluate();
  std::optional<EvaluatedLoss> evaluate_after(const StepReport& line);
  const Batch& next_batch(PrefetchLoader& loader, std::int64_t steps_done);
  void save_before_stopping(std::int64_t steps_done, const Error& reason);
  void save(std::int64_t steps_done);

  const RunConfig& config_;
  const TrainCallbacks& callbacks_;
  Communicator* world_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  RunFolder folder_;
  std::string tokenizer_digest_;
  std::string token_ids_;  // for the model's config.json, see saved_model.h
  RunData data_;
  std::unique_ptr<TrainingStep> step_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<GoldenLosses> golden_;   // null: not asked for
  std::unique_ptr<RunReporter> reporter_;  // of rank 0
  std::int64_t used_before_ = 0;           // of the device's memory, if it has its own, before the plan's
  std::int64_t first_step_ = 0;
  std::string last_checkpoint_;
  std::int64_t last_saved_step_ = 0;
};

// Whichever rank was asked to, all stop together.
bool Run::stop_requested() const {
  std::int32_t stop = callbacks_.stop_requested() ? 1 : 0;
  if (world_) world_->all_reduce(&stop, 1, DType::i32, Reduction::max);
  return stop != 0;
}

void Run::make_evaluator() {
  const BatchShape shape{config_.train.micro_batch, config_.train.seq_len};
  evaluator_ = std::make_unique<Evaluator>(*model_, shape, weight_dtype(config_.precision), *device_, *step_);
}

// Of ranks that share a GPU the first measures it, alone there. A core that several share counts for each.
double Run::peak_of_all_ranks() const {
  if (world_ == nullptr) return device_->peak_flops();
  device_->synchronize();
  const std::uint64_t own = device_->memory_id();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world_->size()));
  world_->all_gather(&own, all.data(), {1, sizeof(own) / sizeof(std::int32_t)}, DType::i32);
  const bool measures = own == 0 || std::ranges::find(all, own) - all.begin() == world_->rank();
  double peak = measures ? device_->peak_flops() : 0;
  world_->all_reduce(&peak, 1, DType::f64, Reduction::sum);
  return peak;
}

// Every rank checks: they have the same losses, so all stop at the same step.
void Run::open_golden_losses() {
  const MetricsKeys& keys = config_.metrics;
  golden_ = std::make_unique<GoldenLosses>(keys.golden_losses, keys.golden_tolerance);
  callbacks_.message(
      fmt::format("read {} golden losses from {}: those of the first steps are checked to {:g} times",
                  golden_->size(), keys.golden_losses, keys.golden_tolerance));
}

// A slip of the pen in optimizer.no_decay would let everything decay.
void Run::say_what_no_decay_misses() const {
  for (const std::string& part : config_.optimizer.no_decay) {
    const auto has_it = [&](const Parameter& p) { return p.name.find(part) != std::string::npos; };
    if (std::ranges::any_of(step_->parameters(), has_it)) continue;
    callbacks_.message(fmt::format("optimizer.no_decay: no parameter has '{}' in its name", part));
  }
}

// Says what it has shown. The remarks are of training's products alone, as those are what can be searched.
void Run::after_first_step() {
  const std::vector<std::string> remarks = device_->remarks();
  if (evaluator_ && device_->captures()) evaluator_->warm_up(*model_);
  if (device_->memory_id() != 0)
    callbacks_.message(memory_taken_line(*step_, evaluator_.get(), used_before_));
  for (const std::string& remark : remarks) callbacks_.message(remark);
}

void Run::restore(const std::filesystem::path& folder) {
  LoadedCheckpoint checkpoint(folder);
  const auto& [step, consumed_samples, properties] = checkpoint.info();
  const std::int64_t batch = config_.train.global_batch;
  TS_CHECK(consumed_samples / batch == step && consumed_samples % batch == 0,
           "{}: found {} samples after {} steps, expected {} times train.global_batch = {}",
           (folder / kManifestName).string(), consumed_samples, step, step, batch);
  if (const auto samples = properties.find(kSamplesProperty); samples != properties.end()) {
    TS_CHECK(samples->second == std::to_string(data_.train->per_epoch),
             "the data have {} samples, but {} was trained on {}: resuming would see others",
             data_.train->per_epoch, folder.string(), samples->second);
  }
  load_checkpoint_state(step_->weights(), step_->parameters(), checkpoint);
  first_step_ = checkpoint.info().step;
  last_checkpoint_ = folder.string();
  last_saved_step_ = first_step_;
  callbacks_.message(fmt::format("resuming from {} at step {}", folder.string(), first_step_));
}

// The same samples on every layout. Nothing if a stop was asked for meanwhile: who waits for one waits for
// the checkpoint.
std::optional<EvaluatedLoss> Run::evaluate() {
  const Samples& valid = *data_.valid;
  bool stopped = false;
  const EvaluatedLoss found =
      evaluator_->evaluate(valid, valid.num_in_batches(config_.train.eval_batches, config_.train.micro_batch),
                           [&](std::int64_t, const EvaluatedLoss&) { return !(stopped = stop_requested()); });
  return stopped ? std::nullopt : std::optional(found);
}

// Bad tokens, in training or validation, end the run, but the steps taken before they turned up are kept,
// unless only some ranks met them: saving takes all. So of any other error: it may be one rank's alone.
const Batch& Run::next_batch(PrefetchLoader& loader, std::int64_t steps_done) {
  const Batch* batch = nullptr;
  try {
    on_all_ranks(world_, [&] {
      batch = &loader.next();
      check_inputs(step_->inputs(), batch->batch_size, batch_inputs(*batch));
    });
  } catch (const FailedOnAll& failed) {
    save_before_stopping(steps_done, failed);
    throw;
  }
  return *batch;
}

std::optional<EvaluatedLoss> Run::evaluate_after(const StepReport& line) {
  try {
    return evaluate();
  } catch (const FailedOnAll& failed) {
    if (reporter_) reporter_->append(line);
    save_before_stopping(line.step, failed);
    throw;
  }
}

// No rank leaves before rank 0 has written all: who ends for an error ends the others.
void Run::save_before_stopping(std::int64_t steps_done, const Error& reason) {
  if (steps_done == last_saved_step_) return;
  try {
    save(steps_done);
    if (world_) world_->barrier();
  } catch (const PeerFailed&) {
    throw;
  } catch (const std::exception& problem) {
    fail("{}; and the steps until then could not be saved: {}", reason.what(), problem.what());
  }
  callbacks_.message(fmt::format("stopping after step {}: saved {}", steps_done, last_checkpoint_));
}

void Run::save(std::int64_t steps_done) {
  const std::vector<CheckpointFile> files = checkpoint_files(step_->weights(), step_->parameters());
  last_saved_step_ = steps_done;
  if (!speaks()) {
    for (const CheckpointFile& file : files) make_tensors(file.tensors);
    return;
  }
  CheckpointInfo info;
  info.step = steps_done;
  info.consumed_samples = steps_done * config_.train.global_batch;
  info.properties = {{kModelConfigProperty, model_->config_json()},
                     {kRunConfigProperty, to_yaml(config_)},
                     {kSamplesProperty, std::to_string(data_.train->per_epoch)},
                     {kCorporaProperty, data_.train->corpora}};
  if (!token_ids_.empty()) info.properties[kTokenIdsProperty] = token_ids_;
  if (!tokenizer_digest_.empty()) info.properties[kTokenizerProperty] = tokenizer_digest_;
  last_checkpoint_ =
      save_checkpoint(config_.train.out, info, files, static_cast<int>(config_.train.keep_last)).string();
}

// A run may have ended between its last checkpoint's name and its own end.
void Run::finish_what_was_killed() {
  const bool tidy = folder_.is_tidy(first_step_);
  if (tidy && has_summaries(config_)) return;
  folder_.lock();
  if (!tidy) folder_.tidy(first_step_);
  if (!has_summaries(config_)) finish_report(config_, *model_, data_.train->per_epoch);
}

TrainSummary Run::nothing_to_do() {
  callbacks_.message(
      fmt::format("nothing to do: {} steps are done, train.steps is {}", first_step_, config_.train.steps));
  if (speaks()) finish_what_was_killed();
  TrainSummary summary = summary_of_log(config_, first_step_);
  summary.checkpoint = last_checkpoint_;
  return summary;
}

TrainSummary Run::go() {
  if (first_step_ >= config_.train.steps) return nothing_to_do();
  const LearningRateSchedule schedule = learning_rate_schedule(config_);
  PrefetchLoader loader(data_.train->fill, {.batch_size = config_.train.global_batch,
                                            .seq_len = config_.train.seq_len,
                                            .first_sample = first_step_ * config_.train.global_batch,
                                            .pairs = data_.train->pairs});
  TrainSummary summary;
  summary.steps_done = first_step_;
  summary.last_eval_loss = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t step = first_step_; step < config_.train.steps && !summary.stopped_early; ++step) {
    const auto start = Clock::now();
    const Batch& batch = next_batch(loader, step);
    const double rate = learning_rate(schedule, step);
    const StepResult result = step_->run(batch_inputs(batch), step, rate);
    TS_CHECK(std::isfinite(result.loss) && std::isfinite(result.grad_norm),
             "step {}: loss is {} and gradient norm {}; {}. Lower optimizer.lr or look at samples {} to {}",
             step + 1, std::abs(result.loss), std::abs(result.grad_norm),  // a NaN's sign says nothing
             last_checkpoint_.empty() ? "nothing was saved" : "the last checkpoint is " + last_checkpoint_,
             batch.first_sample, batch.first_sample + config_.train.global_batch - 1);
    const double seconds = seconds_since(start);
    if (step == first_step_) after_first_step();
    StepReport line{.step = step + 1};
    if (reporter_) line = reporter_->report({step + 1, result, rate, seconds});
    summary.steps_done = step + 1;
    summary.last_loss = result.loss;
    const auto due = [&](std::int64_t every) {
      return step + 1 == config_.train.steps || (every > 0 && (step + 1) % every == 0);
    };
    summary.stopped_early = stop_requested();
    if (evaluator_ && !summary.stopped_early && due(config_.train.eval_every)) {
      if (const std::optional<EvaluatedLoss> found = evaluate_after(line)) {
        line.eval_loss = summary.last_eval_loss = found->loss();
        line.eval_perplexity = summary.last_eval_perplexity = found->perplexity();
      } else {
        summary.stopped_early = true;
      }
    }
    if (reporter_) reporter_->append(line);
    if (golden_) golden_->check(step + 1, result.loss);
    if (summary.stopped_early || due(config_.train.save_every)) save(step + 1);
  }
  // Asked to stop in the last step, a run has done all but perhaps its evaluation.
  if (summary.steps_done == config_.train.steps && !evaluator_) summary.stopped_early = false;
  summary.checkpoint = last_checkpoint_;
  if (reporter_) reporter_->finish();
  return summary;
}

}  // namespace

TrainSummary train(const RunConfig& config, bool resume, const TrainCallbacks& callbacks,
                   Communicator* world) {
  if (world == nullptr || world->rank() == 0) return Run(config, resume, callbacks, world).go();
  TrainCallbacks silent;
  silent.stop_requested = callbacks.stop_requested;
  return Run(config, resume, silent, world).go();
}

}  // namespace tessera
