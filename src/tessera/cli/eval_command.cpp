#include <algorithm>
#include <cmath>

#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/terminal.h"
#include "tessera/train/evaluate.h"
#include "tessera/train/from_config.h"
#include "tessera/train/run_data.h"
#include "tessera/train/saved_model.h"

namespace tessera {
namespace {

constexpr std::string_view kUsedKeys[] = {"device",        "threads",           "cuda.",     "data.",
                                          "train.seq_len", "train.micro_batch", "train.seed"};

struct EvalOptions {
  std::string model, data;
  std::optional<std::int64_t> seq_len, batch;
  std::int64_t max_batches = 0;
  std::vector<std::string> overrides;
};

// That of the run, on one rank, with what the command line says.
RunConfig eval_config(const SavedModel& saved, const EvalOptions& options) {
  RunConfig config = saved.run.value_or(RunConfig{});
  if (!saved.run) config.train.seq_len = saved.model->max_positions();
  config.parallel = {};
  config.cuda.tuning.clear();  // of the run's card and its own products
  check_override_keys(options.overrides, kUsedKeys);
  apply_overrides(config, options.overrides);
  TS_CHECK(!options.data.empty() || config.data != DataKeys{}, "{} has no data of its own: pass --data PATH",
           options.model);
  if (config.data.tokenizer.empty()) config.data.tokenizer = saved.tokenizer;
  if (options.seq_len) {
    const std::int64_t positions = saved.model->max_positions();
    TS_CHECK(*options.seq_len <= positions, "--seq-len: found {}, expected at most {}, the model's positions",
             *options.seq_len, positions);
    config.train.seq_len = *options.seq_len;
  }
  if (options.batch) config.train.micro_batch = *options.batch;
  if (!options.data.empty()) validate_on(config.data, options.data);
  validate_data(config.data);
  return config;
}

std::optional<Samples> open_samples(const SavedModel& saved, const RunConfig& config,
                                    const EvalOptions& options) {
  RunDataOptions parts;
  parts.train = false;
  // What is wrong with other data is said of them, though the run has keys for them.
  if (!options.data.empty()) parts.given_by = "--data = " + options.data;
  parts.message = print_to_stderr;
  return open_run_data(config, *saved.model, parts).valid;
}

void print_losses(const EvaluatedLoss& losses) {
  TS_CHECK(std::isfinite(losses.loss()),
           "the loss is {}: the model's weights, or what it computes of them, are not numbers",
           losses.loss());
  fmt::print("loss {:.6f}  perplexity {:.3f}  over {} tokens\n", losses.loss(), losses.perplexity(),
             losses.predictions[0].scored);
  if (losses.predictions.size() == 1) return;
  for (const PredictionLoss& p : losses.predictions)
    fmt::print("  {} loss {:.6f} over {}\n", p.targets, p.mean(), p.scored);
}

}  // namespace

int eval_command(int argc, const char* const* argv) {
  EvalOptions eval;
  Options options("tessera eval", "Loss and perplexity of a model on held-out data, on one rank, in fp32.");
  options.positional("MODEL", &eval.model, "a run's folder, a checkpoint or a Hugging Face folder");
  options.option(
      "--data PATH", &eval.data,
      "all of it, as data.kind says: a .bin/.idx prefix, a folder of shards or a text (default: the "
      "run's own validation part)");
  options.option("--seq-len N", &eval.seq_len,
                 "tokens per sequence (default: the run's; else the model's positions)");
  options.option("--batch N", &eval.batch, "sequences at a time (default: the run's micro-batch; else 1)");
  options.option("--batches N", &eval.max_batches, "how many batches at most; 0: all");
  options.rest("key=value", &eval.overrides, "change keys of " + listed_keys(kUsedKeys));
  options.footer("Example: tessera eval runs/quickstart/run-1 --data data/valid");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(eval.seq_len.value_or(1) >= 1, "--seq-len: found {}, expected at least 1", *eval.seq_len);
  TS_CHECK(eval.batch.value_or(1) >= 1, "--batch: found {}, expected at least 1", *eval.batch);
  TS_CHECK(eval.max_batches >= 0, "--batches: found {}, expected 0 or more", eval.max_batches);

  const SavedModel saved = open_saved_model(eval.model, print_to_stderr);
  const RunConfig config = eval_config(saved, eval);
  const std::optional<Samples> samples = open_samples(saved, config, eval);
  TS_CHECK(samples.has_value(), "the run of {} held nothing out: pass --data PATH", eval.model);

  const std::unique_ptr<Device> device = make_computing_device(config);
  const WeightHolder weights = load_weights(saved, *device);
  const BatchShape shape{std::min(config.train.micro_batch, samples->per_epoch), config.train.seq_len};
  Evaluator evaluator(*saved.model, shape, DType::f32, *device, *weights.executor);
  const std::int64_t count =
      eval.max_batches > 0 ? samples->num_in_batches(eval.max_batches, shape.batch) : samples->per_epoch;
  ProgressBar bar(stderr, progress_options("eval", count));
  const EvaluatedLoss losses =
      evaluator.evaluate(*samples, count, [&](std::int64_t done, const EvaluatedLoss& so_far) {
        bar.update(done, fmt::format("loss {:.4f}", so_far.loss()));
        return true;
      });
  bar.finish(fmt::format("loss {:.4f}", losses.loss()));
  print_losses(losses);
  return 0;
}

}  // namespace tessera
