// What --shrink makes of recipes: the same structure, on few ranks and small.
#include "tessera/train/shrink.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera {
namespace {

std::filesystem::path recipe_path(const std::string& name) {
  return std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" / (name + ".yaml");
}

RunConfig recipe(const std::string& name) {
  return load_run_config(recipe_path(name), {});
}

std::string layout_of(const std::string& name, std::int64_t ranks) {
  const ParallelKeys p = shrunk(recipe(name), ranks).parallel;
  return fmt::format("tp {} pp {} dp {}", p.tp, p.pp, p.dp);
}

TEST(Shrink, KeepsTheKindsOfParallelismInProportion) {
  EXPECT_EQ(layout_of("bert-large", 8), "tp 4 pp 1 dp 2");     // tp 8, dp 4
  EXPECT_EQ(layout_of("gpt2-xl", 8), "tp 1 pp 1 dp 8");        // dp 32
  EXPECT_EQ(layout_of("gpt-neox-6.9b", 8), "tp 2 pp 1 dp 4");  // tp 8, dp 16
  EXPECT_EQ(layout_of("gpt-neox-20b", 8), "tp 4 pp 1 dp 2");   // tp 32, dp 4
  EXPECT_EQ(layout_of("llama2-70b", 8), "tp 2 pp 2 dp 2");     // tp 32, pp 8, dp 4
  EXPECT_EQ(layout_of("llama2-70b", 4), "tp 2 pp 2 dp 1");     // the two larger axes
  EXPECT_EQ(layout_of("llama2-70b", 64), "tp 8 pp 4 dp 2");
  EXPECT_EQ(layout_of("gpt3-175b", 8), "tp 4 pp 2 dp 1");  // tp 32, pp 8
  EXPECT_EQ(layout_of("gpt3-175b", 6), "tp 3 pp 2 dp 1");
  EXPECT_EQ(layout_of("gpt3-175b", 1), "tp 1 pp 1 dp 1");
}

TEST(Shrink, KeepsTheStructure) {
  const RunConfig before = recipe("llama2-70b"), after = shrunk(before, 8);
  EXPECT_EQ(after.parallel.sequence, before.parallel.sequence);
  EXPECT_EQ(after.parallel.zero1, before.parallel.zero1);
  EXPECT_EQ(after.pipeline.schedule, before.pipeline.schedule);
  EXPECT_EQ(after.precision, before.precision);
  EXPECT_EQ(after.recompute, before.recompute);
  EXPECT_EQ(after.train.seed, before.train.seed);
  EXPECT_EQ(after.model.architecture.type, before.model.architecture.type);
  EXPECT_EQ(after.model.architecture.layers, 4);
  EXPECT_EQ(after.model.architecture.attention.heads, 8);
  EXPECT_EQ(after.model.architecture.attention.kv_heads, 1);  // 64 queries to 8 keys
  EXPECT_EQ(after.model.architecture.ffn_size, 448);          // 3.5 times the width
  EXPECT_EQ(after.schedule.warmup_steps, 4);                  // 2000 of 30000
  EXPECT_EQ(after.train.steps, 60);
  EXPECT_EQ(after.device, DeviceName::cpu);
  EXPECT_EQ(after.train.out, "runs/llama2-70b-shrunk");
  // The rest of the optimizer is the recipe's.
  OptimizerKeys optimizer = after.optimizer;
  optimizer.lr = before.optimizer.lr;
  EXPECT_EQ(optimizer, before.optimizer);
}

TEST(Shrink, ScalesTheScheduleAndTheRate) {
  const RunConfig config = shrunk(recipe("gpt3-175b"), 8);
  EXPECT_EQ(config.schedule.constant_steps, 16);  // 80000 of 300000
  EXPECT_EQ(config.schedule.warmup_steps, 1);
  EXPECT_EQ(config.optimizer.lr, 0.004);  // 96 times 5e-5 is more
  EXPECT_EQ(config.schedule.min_lr, 8e-4);
  EXPECT_EQ(shrunk(recipe("gpt-neox-20b"), 8).optimizer.lr, 4.7e-4);  // 48 times 0.97e-5
}

TEST(Shrink, ForgetsWhatALaptopDoesNotHave) {
  const RunConfig config = shrunk(recipe("bert-large-phase2"), 4);
  EXPECT_TRUE(config.model.weights.empty());
  EXPECT_EQ(config.data, DataKeys{.kind = DataKindName::bert});
  const auto vocab_size = [](const std::vector<std::string>& overrides) {
    return load_shrunk_config(recipe_path("gpt2-xl"), overrides, 4, [](const std::string&) {})
        .model.architecture.vocab_size;
  };
  EXPECT_EQ(vocab_size({"data.kind=tokens", "data.prefix=tokens"}), 512);
  EXPECT_EQ(vocab_size({"data.texts=a.txt", "data.tokenizer=folder"}), 0);  // the tokenizer's
  EXPECT_EQ(vocab_size({"data.texts=a.txt", "data.tokenizer=folder", "model.vocab_size=300"}), 300);
}

TEST(Shrink, EveryRecipeBecomesAValidRun) {
  for (const char* name : {"bert-large", "bert-large-phase2", "gpt2-xl", "gpt-neox-6.9b", "gpt-neox-20b",
                           "llama2-7b", "llama2-13b", "llama2-70b", "gpt3-23b", "gpt3-46b", "gpt3-175b"}) {
    for (const std::int64_t ranks : {1, 2, 4, 6, 8, 16}) {
      SCOPED_TRACE(fmt::format("{} on {}", name, ranks));
      const RunConfig config = shrunk(recipe(name), ranks);
      EXPECT_NO_THROW(validate(config));
      EXPECT_EQ(config.parallel.tp * config.parallel.pp * config.parallel.dp, ranks);
    }
  }
}

TEST(Shrink, WhatDividesARecipesSizesDividesTheSmallOnes) {
  RunConfig chunks = recipe("llama2-70b");  // of 80 layers on 8 stages
  chunks.pipeline.schedule = ScheduleName::interleaved;
  chunks.pipeline.chunks = 5;
  EXPECT_EQ(shrunk(chunks, 1).pipeline.chunks, 0);
  EXPECT_EQ(shrunk(chunks, 8).pipeline.chunks, 2);
  validate(shrunk(chunks, 8));
  RunConfig turned = recipe("gpt-neox-6.9b");  // heads of 128
  for (const double fraction : {0.016, 0.1, 0.25, 0.5, 1.0}) {
    turned.model.architecture.attention.rotary_fraction = fraction;
    const RunConfig small = shrunk(turned, 4);
    validate(small);
    EXPECT_NEAR(small.model.architecture.attention.rotary_fraction, fraction, 0.125);
  }
}

TEST(Shrink, SaysWhatItChangedAndLetsOverridesWin) {
  std::vector<std::string> said;
  const std::vector<std::string> overrides = {"data.texts=a.txt", "train.steps=7", "data.tokenizer=folder"};
  const RunConfig config = load_shrunk_config(recipe_path("llama2-7b"), overrides, 8,
                                              [&](const std::string& line) { said.push_back(line); });
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.data.texts, std::vector<std::string>{"a.txt"});
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said[0], "shrunk to 8 ranks:");
  for (const char* line :
       {"  parallel.tp: 8 -> 2", "  parallel.dp: 16 -> 4", "  model.hidden_size: 4096 -> 128",
        "  train.steps: 10000 -> 7", "  device: cuda -> cpu"})
    EXPECT_NE(std::ranges::find(said, line), said.end()) << line;
  for (const std::string& line : said) EXPECT_EQ(line.find("parallel.zero1"), std::string::npos) << line;
}

TEST(Shrink, WithoutRanksTheConfigIsLeftAlone) {
  EXPECT_EQ(
      load_shrunk_config(recipe_path("llama2-7b"), {}, std::nullopt, [](const std::string&) { FAIL(); }),
      recipe("llama2-7b"));
}

TEST(Shrink, RefusesWhatItCannotDo) {
  const auto refusal = [](const RunConfig& config, std::int64_t ranks) -> std::string {
    try {
      shrunk(config, ranks);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(
      refusal(recipe("gpt2-xl"), 33),
      "--shrink: found 33, expected 1 to 32, the ranks of the recipe (parallel.tp = 1 times pp = 1 times "
      "dp = 32)");
  EXPECT_TRUE(refusal(recipe("gpt2-xl"), -1).starts_with("--shrink: found -1"));
  RunConfig elsewhere = recipe("gpt2-xl");
  elsewhere.model.config = "some/config.json";
  EXPECT_TRUE(
      refusal(elsewhere, 4).starts_with("--shrink: the model comes from model.config = some/config.json"));
  RunConfig sizeless = recipe("llama2-7b");
  sizeless.model.architecture.hidden_size = 0;
  EXPECT_EQ(refusal(sizeless, 4),
            "--shrink: model.hidden_size: found 0, expected at least 1 in the recipe itself");
  RunConfig headless = recipe("llama2-7b");
  headless.model.architecture.attention = {.heads = 2, .kv_heads = 4};
  EXPECT_EQ(refusal(headless, 4), "--shrink: model.heads = 2 is not a multiple of model.kv_heads = 4");
  RunConfig uneven = recipe("llama2-7b");
  uneven.train.global_batch = 1;
  uneven.train.micro_batch = 8;
  EXPECT_TRUE(refusal(uneven, 4).starts_with("--shrink: train.global_batch = 1 is not a multiple of"));
}

}  // namespace
}  // namespace tessera
