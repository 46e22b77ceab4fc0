#include "tessera/base/atomic_file.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/train/from_config.h"
#include "tessera/train/random_batch.h"
#include "tessera/train/run_tokenizer.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {

int tune_command(int argc, const char* const* argv) {
  std::string path, out;
  std::vector<std::string> overrides;
  Options options(
      "tessera tune",
      "Run one step of a config on random tokens, try the ways that cuBLASLt proposes for each of its large "
      "matrix products, and keep the fastest in a file. Runs with cuda.tuning=FILE use them: the same file, "
      "the same bits. On one rank.");
  options.positional("CONFIG", &path, "the run's YAML file, with device: cuda");
  options.option("--out FILE", &out, "where to write the choices");
  options.rest("key=value", &overrides, "change keys of CONFIG");
  options.footer(
      "Example: tessera tune run.yaml --out h200.tuning && tessera train run.yaml cuda.tuning=h200.tuning");
  options.require({"--out"});
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  RunConfig config = load_run_config(path, overrides);
  config.cuda.tuning.clear();  // of an earlier search, maybe on another card, which this one replaces
  TS_CHECK(config.device == DeviceName::cuda,
           "device: found {}, expected cuda: only a GPU has several ways to compute a product",
           config.device == DeviceName::cpu ? "cpu" : "null");
  const Layout layout = layout_of(config);
  TS_CHECK(layout.mesh.num_ranks() == 1, "tessera tune runs on one rank, but {} has {}: set parallel.* to 1",
           path, layout.mesh.num_ranks());

  const std::unique_ptr<Model> model = make_model(config, tokenizer_vocab_size(config.data));
  const std::unique_ptr<Device> device = make_computing_device(config);
  AtomicFile file(out);  // before the search, which takes minutes
  TrainingStep step(*model, training_graph_options(config), layout, 0, *device);
  initialize_weights(step.weights(), step.parameters(), 1);
  const RandomBatch batch(*model, step.inputs(), config.train.global_batch, config.train.seq_len);
  step.run(batch.inputs(), 0, config.optimizer.lr);
  const std::string choices =
      device->search_choices([](const std::string& line) { fmt::print("{}\n", line), std::fflush(stdout); });
  file.write(choices);
  file.commit();
  fmt::print("wrote {}\n", out);
  return 0;
}

}  // namespace tessera
