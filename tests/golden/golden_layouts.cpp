// golden_layouts [--covering] [key=value ...] DIR...: golden_check of every model folder on every layout of
// layout_choices.h, of at most eight ranks: some thousands of them, about fifteen minutes; or on a few that
// have every pair of choices. The keys are for all of them: device=cuda precision=bf16. Prints what fails,
// and a progress line on stderr.
#include <array>
#include <chrono>
#include <cstdio>
#include <span>

#include "golden/layout_choices.h"
#include "tessera/cli/options.h"
#include "tessera/train/golden_check.h"
#include "tessera/train/run_ranks.h"

namespace tessera {
namespace {

constexpr int kMostRanks = 8;

// Quantities out of bounds; an error counts as one.
int check(const std::string& folder, const std::vector<std::string>& overrides, const std::string& text) {
  int failed = 0;
  try {
    const RunConfig config = layout_config(overrides);
    run_ranks(config, false, [&](Communicator* world) {
      const std::vector<GoldenLine> lines = run_golden_check(folder, config, world);
      if (world != nullptr && world->rank() != 0) return;
      for (const GoldenLine& line : lines) {
        if (line.passed()) continue;
        ++failed;
        std::printf("FAILED %s: %s: error %.3e, bound %.1e\n", text.c_str(), line.quantity.c_str(),
                    line.error, line.bound);
      }
    });
  } catch (const std::exception& e) {
    ++failed;
    std::printf("FAILED %s: %s\n", text.c_str(), e.what());
  }
  return failed;
}

int run(int argc, char** argv) {
  bool covering = false;
  std::vector<std::string> overrides, models;
  for (const std::string argument : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) {
    if (argument == "--covering") {
      covering = true;
    } else if (!argument.starts_with('-')) {
      (argument.find('=') != std::string::npos ? overrides : models).push_back(argument);
    } else {
      models.clear();
      break;
    }
  }
  if (models.empty()) {
    std::fprintf(
        stderr, "usage: golden_layouts [--covering] [key=value ...] DIR...   (such as tests/golden/llama)\n");
    return 2;
  }
  // What the layouts and the folders do not decide.
  check_override_keys(overrides, std::array<std::string_view, 7>{"device", "threads", "cuda.", "precision",
                                                                 "train.micro_batch", "optimizer.state_dtype",
                                                                 "optimizer.gradient_dtype"});
  const std::vector<LayoutKey> keys = layout_keys(models);
  std::vector<LayoutChoice> all = all_layouts(keys, kMostRanks);
  if (covering) all = covering_layouts(all);
  const auto start = std::chrono::steady_clock::now();
  std::size_t failed = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string text = text_of(keys, all[i]);
    std::vector<std::string> words = overrides_of(keys, all[i]);
    words.insert(words.end(), overrides.begin(), overrides.end());
    failed += check(value_of(keys, all[i], ""), words, text) > 0;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double left = seconds / static_cast<double>(i + 1) * static_cast<double>(all.size() - i - 1);
    std::fprintf(stderr, "\r%zu of %zu layouts, %zu failed, %.0f s left ", i + 1, all.size(), failed, left);
  }
  std::fprintf(stderr, "\n");
  std::printf("%zu layouts, %zu failed\n", all.size(), failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "golden_layouts: %s\n", e.what());
    return 1;
  }
}
