// `tessera plan`: exact numbers of a model far larger than the machine, without taking its memory.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

// The shape of Llama-2 7B in the spelling of its own config.json.
constexpr const char* kLlama2 = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
  "num_key_value_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "tie_word_embeddings": false, "vocab_size": 32000})";
constexpr std::int64_t kLlama2Parameters = 6738415616;

class PlanTest : public ProgramTestFolder {
 protected:
  PlanTest() {
    folder.write("config.json", kLlama2);
    folder.write("llama2.yaml", R"(
model: {config: config.json}
train: {seq_len: 4096, global_batch: 4, micro_batch: 1}
device: null
)");
  }

  // The number printed after `what`.
  static std::int64_t number_after(const std::string& text, const std::string& what) {
    const std::size_t at = text.find("\n  " + what + " ");
    EXPECT_NE(at, std::string::npos) << what << "\n" << text;
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + 3 + what.size()));
  }
};

TEST_F(PlanTest, Llama2IsPlannedWithoutItsMemory) {
  const ProgramResult result = expect_success({"plan", "llama2.yaml"});
  EXPECT_TRUE(result.out.starts_with("6738415616 parameters on null")) << result.out;
  EXPECT_EQ(number_after(result.out, "weights"), 4 * kLlama2Parameters);
  EXPECT_EQ(number_after(result.out, "gradients"), 4 * kLlama2Parameters);
  EXPECT_EQ(number_after(result.out, "optimizer state"), 8 * kLlama2Parameters);
  std::int64_t sum = 0;
  for (const char* part : {"weights", "gradients", "optimizer state", "activations kept", "temporaries",
                           "logits", "constants, alignment"})
    sum += number_after(result.out, part);
  EXPECT_EQ(sum, number_after(result.out, "total"));

  // 6 N per token without the embedding, whose rows are only looked up, and attention's half of T x T.
  const std::int64_t tokens = 4 * 4096, multiplied = kLlama2Parameters - 32000 * 4096 - 65 * 4096;
  const std::int64_t attention = 12 * 32 * 4096 * tokens * 4096 / 2;
  const auto useful = static_cast<double>(number_after(result.out, "the model's"));
  EXPECT_NEAR(useful / static_cast<double>(6 * multiplied * tokens + attention), 1.0, 1e-3);
  EXPECT_LT(result.peak_resident_bytes, 200 << 20);
}

TEST_F(PlanTest, Bf16AndRecomputeTakeLess) {
  const std::string plain = expect_success({"plan", "llama2.yaml"}).out;
  const std::string bf16 = expect_success({"plan", "llama2.yaml", "precision=bf16"}).out;
  const std::string again = expect_success({"plan", "llama2.yaml", "recompute=selective"}).out;
  EXPECT_EQ(number_after(bf16, "weights"), 2 * kLlama2Parameters);
  EXPECT_EQ(number_after(bf16, "optimizer state"),
            10 * kLlama2Parameters);  // half an fp32 weight is part of it
  EXPECT_LT(number_after(bf16, "activations kept"), number_after(plain, "activations kept"));
  EXPECT_LT(number_after(again, "activations kept"), number_after(plain, "activations kept"));
}

// The longest names of groups and kinds stand apart.
TEST_F(PlanTest, ListsCollectivesInColumns) {
  const std::string out = expect_success({"plan", "llama2.yaml", "parallel.dp=4", "parallel.zero1=true",
                                          "parallel.zero1_group=2", "--collectives"})
                              .out;
  EXPECT_NE(out.find("\n  ranges  reduce_scatter  update "), std::string::npos) << out;
  EXPECT_NE(out.find("\n  copies  all_reduce      update "), std::string::npos) << out;
}

// Numbers that lack something of what was asked for say so; those of machines with a GPU lack nothing.
TEST_F(PlanTest, SaysThatTheNullDeviceStandsInForAGpu) {
  const std::string cuda = expect_success({"plan", "run.yaml", "device=cuda"}).out;
  const bool stands_in = cuda.find(" parameters on null, plan ") != std::string::npos;
  EXPECT_EQ(cuda.find("the null device stands in. On a GPU ") != std::string::npos, stands_in) << cuda;
  const std::string null = expect_success({"plan", "run.yaml", "device=null"}).out;
  EXPECT_EQ(null.find("stands in"), std::string::npos) << null;
}

TEST_F(PlanTest, WritesTheGraphAndTheSteps) {
  expect_success({"plan", "run.yaml", "--graph", "graph.txt", "--dot", "graph.dot", "--steps", "steps.txt"});
  EXPECT_NE(bytes_of(path() / "graph.txt").find("layers.1.attention"), std::string::npos);
  EXPECT_TRUE(bytes_of(path() / "graph.dot").starts_with("digraph"));
  EXPECT_NE(bytes_of(path() / "steps.txt").find("layers.1.attention"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path() / "run"));
}

TEST_F(PlanTest, DrawsThePipelineAndWritesItsTrace) {
  const std::vector<std::string> pipeline = {"plan", "run.yaml", "parallel.pp=2", "train.micro_batch=1"};
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(), pipeline.begin(), pipeline.end());
    return expect_success(more).out;
  };
  const std::string plain = plan({}), drawn = plan({"--timeline", "--trace", "trace.json"});
  ASSERT_TRUE(drawn.starts_with(plain)) << drawn;
  const std::string timeline = drawn.substr(plain.size());
  EXPECT_TRUE(timeline.starts_with("1f1b: 2 ranks, 4 micro-batches; makespan ")) << timeline;
  EXPECT_NE(timeline.find("\nrank 0 |F0"), std::string::npos) << timeline;
  EXPECT_NE(timeline.find("\nrank 1 ..."), std::string::npos) << timeline;

  std::map<std::pair<int, std::string>, int> programs;  // of a rank, by their kind
  const auto trace = nlohmann::json::parse(bytes_of(path() / "trace.json"));
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++programs[{event.at("pid").get<int>(), event.at("cat").get<std::string>()}];
    const double microseconds = event.at("dur");  // of some hundred thousand flops
    EXPECT_TRUE(microseconds > 1e-3 && microseconds < 1) << microseconds;
  }
  EXPECT_EQ(programs,
            (std::map<std::pair<int, std::string>, int>{
                {{0, "forward"}, 4}, {{0, "backward"}, 4}, {{1, "forward"}, 4}, {{1, "backward"}, 4}}));
}

TEST_F(PlanTest, ListsTheStageThatWasAskedFor) {
  for (const std::string stage : {"0", "1"}) {
    expect_success(
        {"plan", "run.yaml", "parallel.pp=2", "train.micro_batch=1", "--stage", stage, "--graph", stage});
    const std::string graph = bytes_of(path() / stage), other = stage == "0" ? "1" : "0";
    EXPECT_NE(graph.find("layers." + stage + ".attention"), std::string::npos);
    EXPECT_EQ(graph.find("layers." + other + ".attention"), std::string::npos);
  }
  for (const std::string stage : {"2", "-1"}) {
    expect_refusal({"plan", "run.yaml", "parallel.pp=2", "train.micro_batch=1", "--stage", stage},
                   {"--stage: found " + stage + ", expected 0 to 1"});
  }
  expect_refusal({"plan", "run.yaml", "--stage", "1"}, {"--stage: found 1, expected 0 to 0"});
}

TEST_F(PlanTest, TheSameConfigIsTheSamePlan) {
  const std::string first = expect_success({"plan", "run.yaml"}).out;
  EXPECT_EQ(expect_success({"plan", "run.yaml"}).out, first);
  EXPECT_NE(expect_success({"plan", "run.yaml", "train.seq_len=8"}).out, first);
}

}  // namespace
}  // namespace tessera
