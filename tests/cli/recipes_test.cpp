// Every recipe in configs/ as a user takes it: planned in full, with the parameters its original has; and
// made small, trained for real on 4 to 8 local ranks, and in pairs that must learn the same.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cli/program_test_folder.h"
#include "tessera/data/bert_shards.h"
#include "tessera/data/indexed_dataset.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct Recipe {
  std::string name;
  std::int64_t parameters;
  int ranks;                      // of the shrunk run
  std::vector<std::string> data;  // and its data
};

void PrintTo(const Recipe& recipe, std::ostream* out) {
  *out << recipe.name;
}

std::string recipe_path(const std::string& name) {
  return (fs::path(TESSERA_SOURCE_DIR) / "configs" / (name + ".yaml")).string();
}

template <typename Named>
std::string test_name(const testing::TestParamInfo<Named>& info) {
  std::string name = info.param.name;
  for (char& c : name) {
    if (c == '-' || c == '.') c = '_';
  }
  return name;
}

// Sentences of few words, one a line, in paragraphs: what comes next is easy to learn in part.
std::string small_text() {
  const std::vector<std::string> subjects = {"the king", "a servant", "my brother", "the old ship",
                                             "her daughter"};
  const std::vector<std::string> verbs = {" sees ", " follows ", " has forgotten ", " will carry ",
                                          " remembers "};
  const std::vector<std::string> objects = {"the river", "every word", "a house of stone", "the long winter"};
  std::string text;
  std::uint32_t state = 20261;
  const auto pick = [&](const std::vector<std::string>& words) {
    state = state * 1664525u + 1013904223u;
    return words[(state >> 16) % words.size()];
  };
  for (int i = 0; i < 8000; ++i) {
    for (const auto* words : {&subjects, &verbs, &objects}) text += pick(*words);
    text += i % 7 == 0 ? ".\n\n" : ".\n";
  }
  return text;
}

// A WordPiece vocabulary of that text, with rows that no word uses, as BERT's own has.
std::string small_vocabulary() {
  std::string words = "[PAD]\n";
  for (int i = 0; i < 280; ++i) words += fmt::format("[unused{}]\n", i);
  return words +
         "[UNK]\n[CLS]\n[SEP]\n[MASK]\n."
         "\nthe\nking\na\nservant\nmy\nbrother\nold\nship\nher\ndaughter\nsees\n"
         "follows\nhas\nforgotten\nwill\ncarry\nremembers\nriver\nevery\nword\nhouse\nof\nstone\nlong\n"
         "winter\n";
}

class RecipeFolder : public ProgramTestFolder {
 protected:
  static bool is_bert(const std::string& recipe) { return recipe.starts_with("bert"); }

  // Of the kind that the recipe reads.
  void make_data(const std::string& recipe) const {
    folder.write("text.txt", small_text());
    if (is_bert(recipe)) {
      folder.write("vocab.txt", small_vocabulary());
      expect_success({"data", "bert", "--out", "shards", "--tokenizer", "vocab.txt", "--seq", "64",
                      "--predictions", "10", "--copies", "2", "text.txt"});
      return;
    }
    expect_success({"data", "bpe", "--vocab-size", "320", "--out", "tokenizer", "text.txt"});
    expect_success({"data", "build", "--documents", "paragraph", "--out", "tokens", "--tokenizer",
                    "tokenizer", "text.txt"});
  }

  // In nats, of the ids that the model is to predict.
  double token_entropy() const {
    const IndexedDataset tokens(path() / "tokens");
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens.num_tokens()));
    tokens.copy_tokens(0, ids);
    return entropy(ids);
  }
  double word_entropy() const {
    std::vector<std::int32_t> ids;
    for (const fs::path& file : find_bert_shards(path() / "shards")) {
      for (const std::int32_t id : read_bert_shard(file).masked_lm_ids) {
        if (id != 0) ids.push_back(id);  // else none was masked
      }
    }
    return entropy(ids);
  }

 private:
  static double entropy(const std::vector<std::int32_t>& ids) {
    std::map<std::int32_t, double> counts;
    for (const std::int32_t id : ids) ++counts[id];
    double sum = 0;
    for (const auto& [id, count] : counts) sum -= count * std::log(count / static_cast<double>(ids.size()));
    return sum / static_cast<double>(ids.size());
  }
};

class RecipeTest : public RecipeFolder, public testing::WithParamInterface<Recipe> {};

const std::vector<std::string> kText = {"data.texts=text.txt", "data.tokenizer=tokenizer"};
const std::vector<std::string> kMegatron = {"data.prefix=tokens", "data.tokenizer=tokenizer"};
const std::vector<std::string> kShards = {"data.shards=shards", "data.tokenizer=vocab.txt"};

INSTANTIATE_TEST_SUITE_P(Shipped, RecipeTest,
                         testing::Values(Recipe{"bert-large", 336'226'108, 8, kShards},
                                         Recipe{"bert-large-phase2", 336'226'108, 4, kShards},
                                         Recipe{"gpt2-xl", 1'557'611'200, 4, kText},
                                         Recipe{"gpt-neox-6.9b", 6'857'302'016, 8, kText},
                                         Recipe{"gpt-neox-20b", 20'554'567'680, 4, kText},
                                         Recipe{"llama2-7b", 6'738'415'616, 4, kText},
                                         Recipe{"llama2-13b", 13'015'864'320, 8, kText},
                                         Recipe{"llama2-70b", 68'976'648'192, 8, kText},
                                         Recipe{"gpt3-23b", 22'987'784'192, 8, kMegatron},
                                         Recipe{"gpt3-46b", 45'539'344'384, 8, kMegatron},
                                         Recipe{"gpt3-175b", 174'641'012'736, 8, kMegatron}),
                         test_name<Recipe>);

TEST_P(RecipeTest, HasTheParametersOfItsOriginal) {
  const Recipe& recipe = GetParam();
  const std::string plan = expect_success({"plan", recipe_path(recipe.name)}).out;
  EXPECT_TRUE(plan.starts_with(std::to_string(recipe.parameters) + " parameters on ")) << plan;
  EXPECT_NE(plan.find(" fits a device of 16 GiB: yes, 80 GiB: yes, 141 GiB: yes\n"), std::string::npos)
      << plan;
}

// The loss starts at the vocabulary's logarithm, 5.8. A model that has only learned how often each token
// comes reaches the entropy, 3.7: causal ones must be well below it, as the tokens before tell. BERT, of
// which few tokens are scored, must know by then how often words come; the next sentence is still a guess.
TEST_P(RecipeTest, LearnsShrunk) {
  const Recipe& recipe = GetParam();
  make_data(recipe.name);
  std::vector<std::string> arguments = {"train", recipe_path(recipe.name), "--shrink",
                                        std::to_string(recipe.ranks)};
  arguments.insert(arguments.end(), recipe.data.begin(), recipe.data.end());
  const ProgramResult result = expect_success(arguments);
  EXPECT_NE(result.err.find(fmt::format("shrunk to {} ranks:\n", recipe.ranks)), std::string::npos)
      << result.err;
  const auto reports = read_jsonl_log(path() / "runs" / (recipe.name + "-shrunk") / "metrics.jsonl");
  ASSERT_EQ(reports.size(), 60u);
  double last = 0;
  for (std::size_t i = 50; i < 60; ++i) last += reports[i].loss / 10;
  EXPECT_LT(last, is_bert(recipe.name) ? word_entropy() + std::log(2.0) + 0.1 : token_entropy() - 0.5)
      << result.err;
}

// Two ways to compute the same training: short forms of the pairs of bench/curves, whose bounds these are.
struct Pair {
  std::string name;  // of the recipe
  std::vector<std::string> data, first, second;
  double bound;  // of the relative difference of losses; 0 where both do the same sums in the same order
};

void PrintTo(const Pair& pair, std::ostream* out) {
  *out << pair.name;
}

class RecipePair : public RecipeFolder, public testing::WithParamInterface<Pair> {
 protected:
  std::vector<double> losses(const std::vector<std::string>& keys, const std::string& out) const {
    std::vector<std::string> arguments = {
        "train",          recipe_path(GetParam().name), "--shrink",        "4", "train.steps=15",
        "precision=fp32", "optimizer.lr=0.001",         "train.out=" + out};
    arguments.insert(arguments.end(), GetParam().data.begin(), GetParam().data.end());
    arguments.insert(arguments.end(), keys.begin(), keys.end());
    expect_success(arguments);
    std::vector<double> of_steps;
    for (const StepReport& report : read_jsonl_log(path() / out / "metrics.jsonl"))
      of_steps.push_back(report.loss);
    return of_steps;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Shipped, RecipePair,
    testing::Values(Pair{"bert-large",
                         kShards,
                         {"parallel.tp=2", "parallel.dp=2"},
                         {"parallel.tp=1", "parallel.dp=4"},
                         1e-6},
                    Pair{"gpt-neox-6.9b", kText, {"parallel.zero1=true"}, {"parallel.zero1=false"}, 0},
                    Pair{"gpt2-xl", kText, {"recompute=full"}, {"recompute=none"}, 0},
                    Pair{"llama2-7b",
                         kText,
                         {"parallel.sequence=true", "recompute=selective"},
                         {"parallel.sequence=false", "recompute=none"},
                         1e-6}),
    test_name<Pair>);

TEST_P(RecipePair, LearnsTheSame) {
  make_data(GetParam().name);
  const std::vector<double> first = losses(GetParam().first, "first"),
                            second = losses(GetParam().second, "second");
  ASSERT_EQ(first.size(), 15u);
  ASSERT_EQ(second.size(), 15u);
  for (std::size_t i = 0; i < 15; ++i)
    EXPECT_LE(std::abs(first[i] - second[i]), GetParam().bound * second[i]) << "step " << i + 1;
  EXPECT_LT(first.back(), first.front() - 0.3);
}

class RecipePlan : public ProgramTestFolder {};

// What the original trains under ZeRO-1, which there cannot cut the model as it is.
TEST_F(RecipePlan, Gpt2XlAsTheOriginalCutsIt) {
  const std::string plan =
      expect_success({"plan", recipe_path("gpt2-xl"), "model.hidden_size=1536", "model.heads=24",
                      "model.ffn_size=6144", "model.vocab_multiple=128"})
          .out;
  EXPECT_TRUE(plan.starts_with("1438755840 parameters on ")) << plan;
}

TEST_F(RecipePlan, SaysWhichDevicesAreTooSmall) {
  const std::string plan =
      expect_success({"plan", recipe_path("llama2-7b"), "parallel.tp=1", "parallel.dp=8"}).out;
  EXPECT_NE(plan.find(" fits a device of 16 GiB: no, 80 GiB: yes, 141 GiB: yes\n"), std::string::npos)
      << plan;
}

// 143.11 GB, planned so and run on one H200.
TEST_F(RecipePlan, DevicesHaveTheGibibytesOfTheirNames) {
  const std::string plan =
      expect_success({"plan", (fs::path(TESSERA_SOURCE_DIR) / "bench/shapes/llama2-7b.yaml").string(),
                      "train.micro_batch=2", "train.global_batch=8", "device=cpu"})
          .out;
  EXPECT_NE(plan.find(" fits a device of 16 GiB: no, 80 GiB: no, 141 GiB: yes\n"), std::string::npos) << plan;
}

TEST_F(RecipePlan, OfAShrunkRecipe) {
  const std::string plan = expect_success({"plan", recipe_path("gpt3-175b"), "--shrink", "8"}).out;
  EXPECT_TRUE(plan.starts_with("shrunk to 8 ranks:\n  model.hidden_size: 12288 -> 128\n")) << plan;
  EXPECT_NE(plan.find("\n8 ranks: pp 2 x dp 1 x tp 4, sequence parallel, ZeRO-1\n"), std::string::npos)
      << plan;
}

}  // namespace
}  // namespace tessera
