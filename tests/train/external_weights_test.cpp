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
    export_external_weights(folder.path(), WeightStore(*weights.executor), *saved.model,
                            {{"config.json", saved.model->config_json()}});
  }

  TemporaryFolder folder;
};

// A model that names its tensors in another order: the last rows of all parameters first, so that no two
// pieces of one stand side by side.
class LastRowsFirst final : public Model {
 public:
  explicit LastRowsFirst(const Model& model) : model_(model) {}
  std::int64_t vocab_size() const override { return model_.vocab_size(); }
  std::int64_t max_positions() const override { return model_.max_positions(); }
  std::vector<Prediction> build(ModelBuilder& builder, ValueId ids) const override {
    return model_.build(builder, ids);
  }
  std::vector<ExternalTensor> external_tensors() const override {
    std::vector<ExternalTensor> tensors = model_.external_tensors();
    std::ranges::stable_sort(tensors, std::ranges::greater{}, &ExternalTensor::first_row);
    return tensors;
  }

 private:
  const Model& model_;
};

void fill_all(const WeightStore& store, std::span<const Parameter> parameters, float value) {
  for (const Parameter& p : parameters) {
    const auto size = static_cast<std::size_t>(p.type.shape.num_elems());
    store.write_parameter(p.name, std::vector<float>(size, value));
  }
}

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

TEST_P(ExternalWeightsTest, PiecesOfAParameterMayStandAnywhere) {
  const std::unique_ptr<Device> device = make_device(RunConfig{.threads = 1});
  const SavedModel saved = open_saved_model(golden());
  const WeightHolder wanted = load_weights(saved, *device), found = load_weights(saved, *device);
  const WeightStore store(*found.executor);
  fill_all(store, found.parameters, 1.0f);
  load_external_weights(store, LastRowsFirst(*saved.model),
                        SafetensorsFolder(golden() / "model.safetensors"));
  for (const Parameter& p : found.parameters) {
    EXPECT_EQ(store.read_parameter(p.name), WeightStore(*wanted.executor).read_parameter(p.name)) << p.name;
  }
}

// A golden Llama's tensors, to be written again with a mistake.
struct TensorsOnHost {
  explicit TensorsOnHost(const SafetensorsReader& file) {
    for (const std::string& name : file.names()) {
      const Shape shape = file.info(name).shape;
      auto& values = storage.emplace_back(static_cast<std::size_t>(shape.num_elems()));
      tensors.push_back({name, {values.data(), DType::f32, shape}});
      file.read(name, tensors.back().tensor);
    }
  }
  std::vector<std::vector<float>> storage;
  std::vector<NamedTensor> tensors;
};

TEST(ExternalWeightsRefusalTest, NothingIsWrittenFromAFileThatIsRefused) {
  const fs::path golden = fs::path(TESSERA_SOURCE_DIR) / "tests/golden/llama";
  const std::unique_ptr<Device> device = make_device(RunConfig{.threads = 1});
  const SavedModel saved = open_saved_model(golden);
  const WeightHolder weights = load_weights(saved, *device);
  const WeightStore store(*weights.executor);
  fill_all(store, weights.parameters, 1.0f);
  const TensorsOnHost right(SafetensorsReader(golden / "model.safetensors"));

  const auto expect_refused = [&](const std::vector<NamedTensor>& tensors, std::vector<std::string> parts) {
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "model.safetensors";
    write_safetensors(file, tensors);
    parts.push_back(file.string());
    expect_error([&] { load_external_weights(store, *saved.model, SafetensorsFolder(file)); }, parts);
    for (const Parameter& p : weights.parameters) {
      EXPECT_TRUE(std::ranges::all_of(store.read_parameter(p.name), [](float x) { return x == 1.0f; }))
          << p.name;
    }
  };
  for (std::size_t at = 0; at < right.tensors.size(); ++at) {
    const std::string& name = right.tensors[at].name;
    SCOPED_TRACE(name);
    std::vector<NamedTensor> missing = right.tensors, misshapen = right.tensors, extra = right.tensors;
    missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(at));
    expect_refused(missing, {fmt::format("expected a tensor \"{}\"", name)});
    const Shape flat{misshapen[at].tensor.num_elems(), 1, 1};
    misshapen[at].tensor.shape = flat;
    expect_refused(misshapen, {fmt::format("tensor \"{}\": found F32 {}, expected f32", name, flat.text())});
    extra.push_back({name + ".foreign", extra[at].tensor});
    expect_refused(extra, {fmt::format("tensor '{}.foreign' has no place in this model", name)});
  }
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
