// Hugging Face folders in and out: what transformers wrote comes back from us, bit for bit.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/temporary_folder.h"
#include "tessera/train/from_config.h"
#include "tessera/train/saved_model.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class ExternalWeightsTest : public testing::TestWithParam<const char*> {
 protected:
  fs::path golden() const { return fs::path(TESSERA_SOURCE_DIR) / "tests/golden" / GetParam(); }

  // The golden model, loaded and written again.
  void export_again() {
    RunConfig config;
    config.threads = 1;
    const std::unique_ptr<Device> device = make_device(config);
    const SavedModel saved = open_saved_model(golden());
    const WeightHolder weights = load_weights(saved, *device);
    export_external_weights(folder.path(), WeightStore(*weights.executor), *saved.model);
  }

  TemporaryFolder folder;
};
INSTANTIATE_TEST_SUITE_P(Models, ExternalWeightsTest,
                         testing::Values("llama", "llama-gqa", "qwen2", "gpt2", "gpt2-erf", "gpt-neox",
                                         "gpt-neox-seqres", "bert"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(ExternalWeightsTest, TensorsComeBackEqual) {
  export_again();
  const SafetensorsReader original(golden() / "model.safetensors"), ours(folder.path() / "model.safetensors");
  EXPECT_EQ(ours.names(), original.names());
  EXPECT_EQ(ours.metadata(), original.metadata());
  for (const std::string& name : original.names()) {
    EXPECT_EQ(ours.info(name).dtype, original.info(name).dtype) << name;
    EXPECT_EQ(ours.info(name).shape, original.info(name).shape) << name;
    EXPECT_TRUE(std::ranges::equal(ours.info(name).bytes, original.info(name).bytes)) << name;
  }
}

TEST_P(ExternalWeightsTest, TheFileComesBackByteForByte) {
  export_again();
  EXPECT_TRUE(bytes_of(folder.path() / "model.safetensors") == bytes_of(golden() / "model.safetensors"));
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"config.json", "model.safetensors"}));
}

TEST_P(ExternalWeightsTest, TheConfigDescribesTheSameModel) {
  export_again();
  EXPECT_EQ(load_model_config(folder.path())->config_json(), load_model_config(golden())->config_json());
  const auto original = nlohmann::json::parse(bytes_of(golden() / "config.json"));
  const auto ours = nlohmann::json::parse(bytes_of(folder.path() / "config.json"));
  int shared = 0;
  for (const auto& [key, value] : original.items()) {
    if (!ours.contains(key) || value.is_null()) continue;  // null: transformers' own default
    EXPECT_EQ(ours[key], value) << key;
    ++shared;
  }
  EXPECT_GE(shared, 13) << "of the keys that make an architecture";
}

TEST(ExternalWeightsRefusalTest, MissingAndForeignTensorsAreNamed) {
  const fs::path golden = fs::path(TESSERA_SOURCE_DIR) / "tests/golden";
  const TemporaryFolder folder;
  const std::unique_ptr<Device> device = make_device(RunConfig{.threads = 1});
  const auto load = [&] { load_weights(open_saved_model(folder.path()), *device); };

  fs::copy(golden / "llama/config.json", folder.path());
  fs::copy(golden / "qwen2/model.safetensors", folder.path());
  expect_error(load, {"model.safetensors"});
  fs::remove(folder.path() / "model.safetensors");
  fs::copy(golden / "gpt2/model.safetensors", folder.path());
  expect_error(load, {folder.path().string(), "model.embed_tokens.weight"});
}

}  // namespace
}  // namespace tessera
