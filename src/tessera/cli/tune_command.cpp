#include <cstdlib>
#include <optional>

#include "tessera/base/atomic_file.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/output_files.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/train/run_ranks.h"
#include "tessera/train/tuned_choices.h"

namespace tessera {

int tune_command(int argc, const char* const* argv) {
  std::string path, out;
  std::vector<std::string> overrides;
  Options options(
      "tessera tune",
      "Run one step of a config on random tokens, try the ways that cuBLASLt proposes for each of its large "
      "matrix products, and keep the fastest in a file. Runs with cuda.tuning=FILE use them: the same file, "
      "the same bits. With parallel.*, as many ranks share this machine's GPUs as `tessera train` would "
      "start.");
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
  check_outputs({{"CONFIG", path}}, {{"--out", out}});
  const bool under_mpi = launched_by_mpi(std::getenv);
  run_ranks(config, under_mpi, [&](Communicator* world) {
    const bool first = world == nullptr || world->rank() == 0;
    std::optional<AtomicFile> file;
    if (first) file.emplace(out);  // before the search, which takes minutes
    const std::string choices = tuned_choices(
        config, world, [](const std::string& line) { fmt::print("{}\n", line), std::fflush(stdout); });
    if (!first) return;
    file->write(choices);
    file->commit();
    fmt::print("wrote {}\n", out);
  });
  return 0;
}

}  // namespace tessera
