// golden_layouts DIR...: golden_check of every model folder on every layout of layout_choices.h, of at
// most eight ranks: some thousands of them, about fifteen minutes. Prints what fails, and a progress line on stderr.
#include <chrono>
#include <cstdio>

#include "golden/layout_choices.h"
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
  if (argc < 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: golden_layouts DIR...   (such as tests/golden/llama)\n");
    return 2;
  }
  const std::vector<LayoutKey> keys = layout_keys({argv + 1, argv + argc});
  const std::vector<LayoutChoice> all = all_layouts(keys, kMostRanks);
  const auto start = std::chrono::steady_clock::now();
  std::size_t failed = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string text = text_of(keys, all[i]);
    failed += check(value_of(keys, all[i], ""), overrides_of(keys, all[i]), text) > 0;
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
  return tessera::run(argc, argv);
}
