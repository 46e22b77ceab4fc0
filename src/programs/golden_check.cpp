// golden_check DIR [key=value ...]: compares this build with references made by another system.
#include "tessera/train/golden_check.h"

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tessera/base/printable.h"
#include "tessera/cli/fatal_signals.h"
#include "tessera/cli/options.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/train/run_ranks.h"

namespace {

// The folder has the model, the batches and the optimizer's numbers.
constexpr std::string_view kUsedKeys[] = {"device",
                                          "threads",
                                          "cuda.",
                                          "precision",
                                          "recompute",
                                          "parallel.",
                                          "pipeline.",
                                          "train.micro_batch",
                                          "optimizer.state_dtype",
                                          "optimizer.gradient_dtype"};

int run(int argc, char** argv) {
  std::string folder;
  std::vector<std::string> overrides;
  tessera::Options options("golden_check",
                           "Compare logits, losses, gradients and a short training with references.");
  options.positional("DIR", &folder, "config.json, {model,batches,reference}.safetensors and training.json");
  options.rest("key=value", &overrides, "change keys of " + tessera::listed_keys(kUsedKeys));
  if (const tessera::Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);

  tessera::RunConfig config;
  config.train.micro_batch = 0;  // the folder's whole batch, unless a key says otherwise
  apply_overrides(config, overrides);
  tessera::check_override_keys(overrides, kUsedKeys);
  int failed = 0;
  bool speaks = false;  // rank 0 runs in this process
  const auto check = [&](tessera::Communicator* world) {
    const std::vector<tessera::GoldenLine> lines = run_golden_check(folder, config, world);
    if (world != nullptr && world->rank() != 0) return;
    for (const tessera::GoldenLine& line : lines) {
      std::printf("%-6s %-60s error %.3e  bound %.1e\n", line.passed() ? "ok" : "FAILED",
                  line.quantity.c_str(), line.error, line.bound);
      failed += !line.passed();
    }
    speaks = true;
  };
  run_ranks(config, tessera::launched_by_mpi(std::getenv), check);
  if (!speaks) return 0;
  std::printf(failed == 0 ? "%s: all within bounds\n" : "%s: %d quantities out of bounds\n", folder.c_str(),
              failed);
  if (failed == 0) tessera::check_output_written();
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  tessera::speak_of_fatal_signals();
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "golden_check: %s\n", tessera::printable(e.what()).c_str());
    return 1;
  }
}
