// The golden models on many ranks: a few layouts that cover every pair of choices, all ranks in this process.
// golden_layouts runs all of them.
#include <gtest/gtest.h>

#include <mutex>

#include "golden/layout_choices.h"
#include "tessera/train/golden_check.h"
#include "tessera/train/run_ranks.h"

namespace tessera {
namespace {

constexpr int kMostRanks = 8;

const std::vector<LayoutKey>& keys() {
  static const std::vector<LayoutKey> kKeys =
      layout_keys({"llama", "llama-gqa", "qwen2", "gpt2", "gpt2-erf", "gpt-neox", "gpt-neox-seqres", "bert"});
  return kKeys;
}

// Every rank has the same lines, and all are within their bounds.
void expect_within_bounds(const std::string& model, const std::vector<std::string>& overrides) {
  const RunConfig config = layout_config(overrides);
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/tests/golden/" + model;
  std::mutex mutex;
  std::vector<std::vector<GoldenLine>> of_ranks;
  run_ranks(config, false, [&](Communicator* world) {
    std::vector<GoldenLine> lines = run_golden_check(folder, config, world);
    const std::lock_guard lock(mutex);
    of_ranks.push_back(std::move(lines));
  });
  ASSERT_EQ(static_cast<std::int64_t>(of_ranks.size()),
            config.parallel.tp * config.parallel.pp * config.parallel.dp);
  ASSERT_GT(of_ranks[0].size(), 20u);
  for (const std::vector<GoldenLine>& lines : of_ranks) {
    ASSERT_EQ(lines.size(), of_ranks[0].size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i].error, of_ranks[0][i].error) << lines[i].quantity;
      EXPECT_TRUE(lines[i].passed()) << lines[i].quantity << ": error " << lines[i].error << ", bound "
                                     << lines[i].bound;
    }
  }
}

TEST(GoldenLayouts, EveryPairOfChoices) {
  const std::vector<LayoutChoice> few = covering_layouts(all_layouts(keys(), kMostRanks));
  for (const LayoutChoice& choice : few) {
    SCOPED_TRACE(text_of(keys(), choice));
    ASSERT_NO_THROW(expect_within_bounds(value_of(keys(), choice, ""), overrides_of(keys(), choice)));
  }
  std::printf("%zu layouts\n", few.size());
}

TEST(GoldenLayouts, TheFewCoverEveryPairThatSomeLayoutHas) {
  const std::vector<LayoutChoice> all = all_layouts(keys(), kMostRanks);
  EXPECT_EQ(all.size(),
            216u * keys()[0].values.size());  // 18 meshes, of the other keys what acts on one, models
  const std::vector<LayoutChoice> few = covering_layouts(all);
  EXPECT_LT(few.size(), 60u);
  for (const LayoutChoice& choice : all) {
    for (std::size_t a = 0; a < choice.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const bool found = std::any_of(few.begin(), few.end(), [&](const LayoutChoice& one) {
          return one[a] == choice[a] && one[b] == choice[b];
        });
        ASSERT_TRUE(found) << text_of(keys(), choice) << ": keys " << a << " and " << b;
      }
    }
  }
}

TEST(GoldenLayouts, Bf16) {
  expect_within_bounds("llama-gqa", {"precision=bf16", "parallel.tp=2", "parallel.dp=2", "parallel.pp=2",
                                     "parallel.sequence=true", "parallel.zero1=true"});
  expect_within_bounds("gpt2", {"precision=bf16", "parallel.tp=4", "parallel.pp=2", "recompute=full",
                                "pipeline.schedule=interleaved"});
}

}  // namespace
}  // namespace tessera
