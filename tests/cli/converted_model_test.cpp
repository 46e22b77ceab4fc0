// Models trained here, turned into Hugging Face folders and back by the program: the same logits, to the bit.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program_test_folder.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/base/mapped_file.h"
#include "tessera/base/parse_json.h"
#include "tessera/runtime/make_executor.h"
#include "tessera/train/build_graph.h"
#include "tessera/train/saved_model.h"

namespace tessera {
namespace {

struct Family {
  const char* name;
  const char* config;  // a config.json
};

constexpr Family kFamilies[] = {
    {"llama", R"({"model_type": "llama", "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
      "max_position_embeddings": 16, "bos_token_id": 3, "eos_token_id": 5})"},
    {"gpt_neox", R"({"model_type": "gpt_neox", "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 16, "rotary_pct": 0.5})"},
    {"gpt_neox_sequential", R"({"model_type": "gpt_neox", "vocab_size": 61, "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "rotary_pct": 0.25,
      "max_position_embeddings": 16, "use_parallel_residual": false, "attention_dropout": 0.1})"},
};

class ConvertedModelTest : public ProgramTestFolder, public testing::WithParamInterface<Family> {
 protected:
  // Of a text, with the weights that are in this folder.
  std::vector<float> logits_of(const std::string& name) const {
    const auto device = make_cpu_device(1);
    const SavedModel saved = open_saved_model(path() / name);
    const WeightHolder weights = load_weights(saved, *device);
    const std::vector<std::int32_t> ids = tiny_tokens(16);
    Graph graph = build_logits_graph(*saved.model, {1, 16}, DType::f32).graph;
    const auto executor = make_executor(*device, std::move(graph), {.weights_of = weights.executor.get()});
    executor->write<std::int32_t>(kIdsInput, ids);
    executor->run(Phase::forward);
    const std::span<const float> logits = executor->output(kLogitsOutput).as<float>();
    return {logits.begin(), logits.end()};
  }
};
INSTANTIATE_TEST_SUITE_P(Families, ConvertedModelTest, testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param.name); });

TEST_P(ConvertedModelTest, HasTheLogitsOfTheTrainedOne) {
  folder.write("model.json", GetParam().config);
  folder.write("small.yaml", R"(
model: {config: model.json}
data: {prefix: corpus}
train: {steps: 8, seq_len: 16, global_batch: 4, micro_batch: 2, out: run}
optimizer: {lr: 0.01}
)");
  expect_success({"train", "small.yaml"});
  expect_refusal({"convert", "run", "run"}, {"run holds a run or a checkpoint"});
  expect_success({"convert", "run", "hf"});
  expect_success({"convert", "hf", "back", "--to", "tessera"});
  const std::vector<float> trained = logits_of("run");
  ASSERT_EQ(trained.size(), 16u * 61u);
  EXPECT_EQ(logits_of("hf"), trained);
  EXPECT_EQ(logits_of("back"), trained);
  const auto given = parse_json(GetParam().config),
             written = parse_json(read_file(path() / "hf/config.json"));
  for (const char* id : {"bos_token_id", "eos_token_id"})
    EXPECT_EQ(written.value(id, -1), given.value(id, -1)) << id;
  // Training has moved them: what comes back is not what every run starts from.
  expect_success({"train", "small.yaml", "train.steps=1", "train.out=short"});
  EXPECT_NE(logits_of("short"), trained);
}

}  // namespace
}  // namespace tessera
