#include "tessera/train/run_config.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <functional>
#include <vector>

#include "checkpoint/temporary_folder.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr const char* kSmallLlama = R"(
model:
  type: llama
  hidden_size: 64
  layers: 2
  heads: 4
  kv_heads: 2
  ffn_size: 172
data:
  prefix: data/bible
train:
  steps: 200
  global_batch: 16
  micro_batch: 4
schedule:
  warmup_steps: 20
device: null
)";

class RunConfigTest : public testing::Test {
 protected:
  RunConfig load(const std::string& yaml, std::vector<std::string> overrides = {}) const {
    return load_run_config(folder_.write("run.yaml", yaml), overrides);
  }

  std::string refusal(const std::string& yaml, std::vector<std::string> overrides = {}) const {
    try {
      load(yaml, overrides);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  std::string refusal_of(std::vector<std::string> overrides) const { return refusal(kSmallLlama, overrides); }

  TemporaryFolder folder_;
};

TEST_F(RunConfigTest, LoadsAFileAndKeepsTheOtherDefaults) {
  RunConfig expected;
  expected.model.architecture.hidden_size = 64;
  expected.model.architecture.layers = 2;
  expected.model.architecture.attention.heads = 4;
  expected.model.architecture.attention.kv_heads = 2;
  expected.model.architecture.ffn_size = 172;
  expected.data.prefix = "data/bible";
  expected.train.steps = 200;
  expected.train.global_batch = 16;
  expected.train.micro_batch = 4;
  expected.schedule.warmup_steps = 20;
  expected.device = DeviceName::null;
  EXPECT_EQ(load(kSmallLlama), expected);
}

TEST_F(RunConfigTest, OverridesComeAfterTheFile) {
  const RunConfig config = load(kSmallLlama, {"train.steps=50", "precision=bf16", "optimizer.lr=1e-3",
                                              "schedule.decay=linear", "recompute=selective", "device=cpu"});
  EXPECT_EQ(config.train.steps, 50);
  EXPECT_EQ(config.precision, PrecisionName::bf16);
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.schedule.decay, DecayName::linear);
  EXPECT_EQ(config.recompute, "selective");
  EXPECT_EQ(config.device, DeviceName::cpu);
}

TEST_F(RunConfigTest, EffectiveConfigLoadsToTheSameConfig) {
  const RunConfig config = load(
      kSmallLlama, {"optimizer.lr=0.0007", "model.tie_embeddings=true", "train.out=runs/a: b", "threads=3"});
  EXPECT_EQ(load(to_yaml(config)), config) << to_yaml(config);

  RunConfig from_config_json;
  from_config_json.model.config = "golden/llama";
  EXPECT_EQ(load(to_yaml(from_config_json)), from_config_json);
}

TEST_F(RunConfigTest, MissingOrEmptyFileIsRefused) {
  const std::string absent = (folder_.path() / "absent.yaml").string();
  try {
    load_run_config(absent, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "cannot open " + absent + ": No such file or directory");
  }
  const std::string file = (folder_.path() / "run.yaml").string();
  EXPECT_EQ(refusal(""), file + ": found no keys, expected a YAML config");
  EXPECT_TRUE(refusal("a: [").starts_with(file + ":1: not YAML: ")) << refusal("a: [");
}

TEST_F(RunConfigTest, MistypedKeysNameTheNearestOne) {
  EXPECT_EQ(refusal_of({"train.micro_bach=2"}),
            "unknown key 'train.micro_bach' (command line); did you mean 'train.micro_batch'?");
  EXPECT_EQ(refusal_of({"lr=2"}), "unknown key 'lr' (command line); did you mean 'optimizer.lr'?");
  EXPECT_EQ(refusal_of({"train.lr=2"}),
            "unknown key 'train.lr' (command line); did you mean 'optimizer.lr'?");
  EXPECT_EQ(refusal_of({"train.warmup_steps=2"}),
            "unknown key 'train.warmup_steps' (command line); did you mean 'schedule.warmup_steps'?");
  EXPECT_EQ(refusal_of({"parallel.zero=true"}),
            "unknown key 'parallel.zero' (command line); did you mean 'parallel.zero1'?");
  EXPECT_EQ(refusal_of({"precision=fp16"}), "precision: found 'fp16', expected fp32 | bf16 (command line)");
}

TEST_F(RunConfigTest, ModelComesFromAConfigOrFromKeysButNotBoth) {
  EXPECT_EQ(refusal("train: {steps: 3}"),
            "model.hidden_size: found 0, expected at least 1 (or give model.config)");
  EXPECT_EQ(refusal("model: {config: golden/llama, rope_theta: 5e5}"),
            "model.config and model.rope_theta are both given: expected the architecture from one of them");
  EXPECT_EQ(refusal("model: {config: golden/llama, type: gpt2}"),
            "model.config and model.type are both given: expected the architecture from one of them");
  EXPECT_EQ(refusal("model: {config: golden/llama, init_std: 0.01}"),
            "model.config and model.init_std are both given: the former says how weights start");
}

TEST_F(RunConfigTest, ConflictsNameBothKeys) {
  EXPECT_EQ(refusal_of({"train.micro_batch=3"}),
            "train.global_batch = 16 is not a multiple of train.micro_batch = 3 times parallel.dp = 1");
  EXPECT_EQ(refusal_of({"train.micro_batch=4", "parallel.dp=3"}),
            "train.global_batch = 16 is not a multiple of train.micro_batch = 4 times parallel.dp = 3");
  EXPECT_EQ(refusal_of({"train.seq_len=16777216", "model.max_positions=16777216", "train.micro_batch=2048",
                        "train.global_batch=2048"}),
            "train.micro_batch = 2048 times parallel.dp = 1 times train.seq_len = 16777216 are more than "
            "17179869184 tokens");
  EXPECT_EQ(refusal_of({"parallel.tp=32768", "parallel.pp=65536"}),
            "parallel.tp = 32768 times pp = 65536 times dp = 1 are more than 1073741824 ranks");
  EXPECT_EQ(refusal_of({"model.heads=5"}),
            "model.hidden_size = 64 is not a multiple of model.heads = 5 (or give model.head_dim)");
  EXPECT_EQ(refusal_of({"model.type=gpt_neox", "model.activation=gelu_tanh", "model.kv_heads=0",
                        "model.rotary_fraction=0.2"}),
            "model.rotary_fraction = 0.2 of heads of 16 (model.hidden_size / model.heads) are 3 elements, "
            "expected an even number from 2 on");
  EXPECT_EQ(refusal_of({"model.kv_heads=3"}), "model.heads = 4 is not a multiple of model.kv_heads = 3");
  EXPECT_EQ(refusal_of({"model.max_positions=128"}),
            "train.seq_len = 256 is beyond model.max_positions = 128");
  EXPECT_EQ(refusal_of({"schedule.warmup_steps=201"}),
            "schedule.warmup_steps = 201 is beyond train.steps = 200");
  EXPECT_EQ(refusal_of({"schedule.decay_steps=10"}),
            "schedule.warmup_steps = 20 is beyond schedule.decay_steps = 10");
  EXPECT_EQ(refusal_of({"schedule.min_lr=0.1"}), "schedule.min_lr = 0.1 is above optimizer.lr = 0.0003");
  EXPECT_EQ(refusal_of({"schedule.min_lr=0.0001", "schedule.decay=constant"}),
            "schedule.min_lr = 0.0001 has no effect with schedule.decay = constant");
  EXPECT_EQ(refusal_of({"data.valid_prefix=v", "data.valid_fraction=0.1"}),
            "data.valid_prefix and data.valid_fraction are both given: expected one of them");
}

TEST_F(RunConfigTest, ModelTypesRefuseWhatTheyCannotHave) {
  const std::vector<std::string> gpt2 = {"model.type=gpt2", "model.kv_heads=0", "model.activation=gelu_tanh"};
  const auto gpt2_with = [&](const std::string& assignment) {
    std::vector<std::string> overrides = gpt2;
    overrides.push_back(assignment);
    return refusal_of(overrides);
  };
  EXPECT_EQ(refusal_of(gpt2), "accepted");
  EXPECT_EQ(gpt2_with("model.activation=silu"),
            "model.activation = silu does not go with model.type = gpt2: expected gelu_tanh or gelu_erf");
  EXPECT_EQ(gpt2_with("model.rope_theta=5"),
            "model.rope_theta does not go with model.type = gpt2, which learns its positions");
  EXPECT_EQ(gpt2_with("model.kv_heads=2"),
            "model.kv_heads = 2 does not go with model.type = gpt2, which has as many as model.heads = 4");
  EXPECT_EQ(
      gpt2_with("model.head_dim=8"),
      "model.head_dim = 8 does not go with model.type = gpt2: expected model.hidden_size / model.heads");
  EXPECT_EQ(refusal_of({"model.activation=gelu_erf"}),
            "model.activation is not silu, the activation of model.type = llama and qwen2");
  EXPECT_EQ(gpt2_with("model.dropout=0.1"), "accepted");
  EXPECT_EQ(gpt2_with("model.ffn_dropout=0.1"), "accepted");
  EXPECT_EQ(refusal_of({"model.ffn_dropout=0.1"}),
            "model.ffn_dropout = 0.1 does not go with model.type = llama and qwen2: only gpt2 has it");
  EXPECT_EQ(gpt2_with("model.vocab_multiple=1024"), "accepted");
  EXPECT_EQ(refusal_of({"model.dropout=0.1"}),
            "model.dropout = 0.1 does not go with model.type = llama and qwen2, which drop in attention "
            "alone, by attention_dropout of a config.json");
  EXPECT_EQ(refusal_of({"model.vocab_multiple=128"}),
            "model.vocab_multiple = 128 does not go with model.type = llama and qwen2, whose embedding is "
            "not padded");
  EXPECT_EQ(
      refusal_of({"model.rotary_fraction=0.25"}),
      "model.rotary_fraction = 0.25 does not go with model.type = llama and qwen2: only gpt_neox turns a "
      "part of a head");
  EXPECT_EQ(
      gpt2_with("model.parallel_residual=false"),
      "model.parallel_residual = false does not go with model.type = gpt2: only gpt_neox has the choice");
  EXPECT_EQ(gpt2_with("model.token_types=3"),
            "model.token_types = 3 does not go with model.type = gpt2: only bert has them");
  EXPECT_EQ(refusal_of({"model.head_dim=7"}),
            "model.head_dim = 7 (or model.hidden_size / model.heads) is odd: rotary angles need pairs");
}

TEST_F(RunConfigTest, GptNeoxAndBertAreSpelledOut) {
  const std::vector<std::string> neox = {"model.type=gpt_neox",
                                         "model.kv_heads=0",
                                         "model.activation=gelu_erf",
                                         "model.rotary_fraction=0.25",
                                         "model.parallel_residual=false",
                                         "model.rope_theta=5000",
                                         "model.dropout=0.1"};
  EXPECT_EQ(refusal_of(neox), "accepted");
  const ArchitectureKeys model = load(kSmallLlama, neox).model.architecture;
  EXPECT_EQ(model.type, ModelTypeName::gpt_neox);
  EXPECT_EQ(model.attention.rotary_fraction, 0.25);
  EXPECT_FALSE(model.parallel_residual);
  std::vector<std::string> bert = {"model.type=bert", "model.kv_heads=0", "model.activation=gelu_erf",
                                   "model.token_types=3", "model.dropout=0.1"};
  EXPECT_EQ(refusal_of(bert), "accepted");
  bert.push_back("model.rope_theta=5");
  EXPECT_EQ(refusal_of(bert),
            "model.rope_theta does not go with model.type = bert, which learns its positions");
  bert.back() = "model.vocab_multiple=8";
  EXPECT_EQ(refusal_of(bert),
            "model.vocab_multiple = 8 does not go with model.type = bert, whose embedding is not padded");
}

TEST_F(RunConfigTest, OptimizerAndScheduleOfTheOriginals) {
  const RunConfig config =
      load(kSmallLlama, {"optimizer.form=transformers", "optimizer.no_decay=bias,norm",
                         "schedule.warmup=between", "schedule.constant_steps=50", "schedule.min_lr=0.0001"});
  EXPECT_EQ(config.optimizer.form, AdamWFormName::transformers);
  EXPECT_EQ(config.optimizer.no_decay, (std::vector<std::string>{"bias", "norm"}));
  EXPECT_EQ(config.schedule.warmup, WarmupName::between);
  EXPECT_EQ(decay_end(config.schedule, config.train.steps), 150);
  EXPECT_EQ(load(to_yaml(config)), config) << to_yaml(config);
  EXPECT_EQ(refusal_of({"optimizer.name=lamb", "optimizer.form=transformers"}),
            "optimizer.form = transformers is of optimizer.name = adamw alone");
  EXPECT_EQ(refusal_of({"optimizer.gradient_dtype=bf16"}),
            "optimizer.gradient_dtype = bf16 needs precision = bf16, found fp32");
  EXPECT_NE(refusal_of({"optimizer.gradient_dtype=bf16", "precision=bf16", "train.global_batch=8",
                        "train.micro_batch=2"})
                .find("optimizer.gradient_dtype = bf16 needs a step of one micro-batch, found 4"),
            std::string::npos);
  EXPECT_NE(refusal_of({"optimizer.gradient_dtype=bf16", "precision=bf16", "optimizer.name=lamb"})
                .find("optimizer.gradient_dtype = bf16 does not go with optimizer.name = lamb"),
            std::string::npos);
  for (const char* name : {"lamb", "sgd"}) {
    EXPECT_NE(refusal_of({"optimizer.state_dtype=bf16", std::string("optimizer.name=") + name})
                  .find("optimizer.state_dtype = bf16 is of optimizer.name = adamw alone"),
              std::string::npos);
  }
  EXPECT_EQ(refusal_of({"schedule.constant_steps=190"}),
            "schedule.warmup_steps = 20 is beyond train.steps - schedule.constant_steps = 10");
  EXPECT_EQ(refusal_of({"schedule.constant_steps=213"}),
            "schedule.constant_steps = 213 is beyond train.steps = 200");
  EXPECT_EQ(refusal_of({"schedule.constant_steps=10", "schedule.decay_steps=100"}),
            "schedule.decay_steps and schedule.constant_steps are both given: expected one of them");
  EXPECT_EQ(refusal_of({"schedule.constant_steps=10", "schedule.decay=constant"}),
            "schedule.constant_steps = 10 has no effect with schedule.decay = constant");
  EXPECT_EQ(refusal_of({"schedule.decay_steps=50", "schedule.decay=constant"}),
            "schedule.decay_steps = 50 has no effect with schedule.decay = constant");
}

TEST_F(RunConfigTest, ResolvesWhatComesFromElsewhere) {
  const RunConfig config = load(kSmallLlama, {"model.type=qwen2", "model.kv_heads=0"});
  const ArchitectureKeys model = resolved_architecture(config, 512);
  EXPECT_EQ(model.attention.kv_heads, 4);
  EXPECT_EQ(model.attention.head_dim, 16);
  EXPECT_TRUE(model.attention.qkv_bias);
  EXPECT_EQ(model.vocab_size, 512);
  EXPECT_EQ(model.max_positions, 256);
  EXPECT_THROW(resolved_architecture(config, 0), Error);
  EXPECT_THROW(resolved_architecture(load(kSmallLlama, {"model.vocab_size=500"}), 512), Error);
}

TEST_F(RunConfigTest, HelpNamesEveryKey) {
  const std::string text = "\n" + describe_run_config();
  int keys = 0;
  const std::function<void(const YAML::Node&, const std::string&)> look_up = [&](const YAML::Node& node,
                                                                                 const std::string& path) {
    if (node.IsMap()) {
      for (const auto& entry : node)
        look_up(entry.second, (path.empty() ? "" : path + ".") + entry.first.as<std::string>());
      return;
    }
    EXPECT_NE(text.find("\n  " + path + " "), std::string::npos) << path;
    ++keys;
  };
  look_up(YAML::Load(to_yaml(RunConfig{})), "");
  EXPECT_GE(keys, 80);
}

}  // namespace
}  // namespace tessera
