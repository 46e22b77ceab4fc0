#include <cmath>

#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/terminal.h"
#include "tessera/train/evaluate.h"
#include "tessera/train/from_config.h"
#include "tessera/train/run_data.h"
#include "tessera/train/saved_model.h"

namespace tessera {

int eval_command(int argc, const char* const* argv) {
  std::string path, prefix;
  std::int64_t seq_len = 0, batch = 0, max_batches = 0;
  std::vector<std::string> overrides;
  Options options("tessera eval", "Loss and perplexity of a model on held-out tokens.");
  options.positional("MODEL", &path, "a run's folder, a checkpoint or a Hugging Face folder");
  options.option("--data PREFIX", &prefix, "all of PREFIX.bin/.idx (default: the run's own validation part)");
  options.option("--seq-len N", &seq_len,
                 "tokens per sequence (default: the run's; else the model's positions)");
  options.option("--batch N", &batch, "sequences at a time (default: the run's micro-batch; else 1)");
  options.option("--batches N", &max_batches, "how many batches at most; 0: all");
  options.rest("key=value", &overrides, "change keys such as threads=1");
  options.footer("Example: tessera eval runs/quickstart --data data/valid");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(seq_len >= 0, "--seq-len: found {}, expected at least 1", seq_len);
  TS_CHECK(batch >= 0, "--batch: found {}, expected at least 1", batch);
  TS_CHECK(max_batches >= 0, "--batches: found {}, expected 0 or more", max_batches);

  const SavedModel saved = open_saved_model(path);
  RunConfig config = saved.run.value_or(RunConfig{});
  apply_overrides(config, overrides);
  TS_CHECK(saved.run || !prefix.empty(), "{} has no data of its own: pass --data PREFIX", path);
  if (!saved.run) config.train.seq_len = saved.model->max_positions();
  if (seq_len > 0) config.train.seq_len = seq_len;
  if (batch > 0) config.train.micro_batch = batch;
  if (!prefix.empty()) {
    config.data.prefix = config.data.valid_prefix = prefix;
  }
  const RunData data = open_run_data(config);
  TS_CHECK(data.valid_samples.size() > 0,
           "the run held nothing out (data.valid_fraction = 0): pass --data PREFIX");

  const std::unique_ptr<Device> device = make_computing_device(config);
  const WeightHolder weights = load_weights(saved, *device);
  const std::int64_t samples = data.valid_samples.size();
  const BatchShape shape{std::min(config.train.micro_batch, samples), config.train.seq_len};
  Evaluator evaluator(*saved.model, shape, DType::f32, *device, *weights.executor);
  const TokenBatches batches(data.valid, data.valid_samples,
                             {.seq_len = shape.seq_len, .vocab_size = saved.model->vocab_size()});
  const std::int64_t all = samples / shape.batch;
  const std::int64_t count = max_batches > 0 ? std::min(max_batches, all) : all;
  Batch rows(shape.batch, shape.seq_len);
  ProgressBar bar(stderr, progress_options("eval", count));
  double sum = 0;
  for (std::int64_t b = 0; b < count; ++b) {
    batches.fill(b * shape.batch, rows);
    sum += evaluator.loss(rows.inputs, rows.targets);
    bar.update(b + 1, fmt::format("loss {:.4f}", sum / static_cast<double>(b + 1)));
  }
  const double loss = sum / static_cast<double>(count);
  bar.finish(fmt::format("loss {:.4f}", loss));
  std::printf("loss %.6f  perplexity %.3f  over %lld tokens\n", loss, std::exp(loss),
              static_cast<long long>(count * shape.batch * shape.seq_len));
  return 0;
}

}  // namespace tessera
