#include "tessera/checkpoint/safetensors_folder.h"

#include <gtest/gtest.h>

#include "checkpoint/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kSharded = fs::path(TESSERA_SOURCE_DIR) / "tests/checkpoint/golden/sharded";
constexpr const char* kIndex = "model.safetensors.index.json";

std::vector<float> read_floats(const SafetensorsFolder& folder, const std::string& name) {
  const Shape shape = folder.info(name).shape;
  std::vector<float> values(static_cast<std::size_t>(shape.num_elems()));
  folder.read(name, {values.data(), DType::f32, shape});
  return values;
}

TEST(SafetensorsFolder, ReadsShardsThroughTheirIndex) {
  const SafetensorsFolder folder(kSharded);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"embed", "head", "norm"}));
  EXPECT_EQ(folder.info("embed").shape, (Shape{4, 2}));
  EXPECT_EQ(read_floats(folder, "embed"), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(read_floats(folder, "head"), (std::vector<float>{5, 6}));
  EXPECT_EQ(read_floats(folder, "norm"), (std::vector<float>{1, 2}));
  EXPECT_FALSE(folder.contains("bias"));
  expect_error([&] { folder.info("bias"); },
               {kSharded.string(), "\"bias\"", "found 3 tensors, none of this name"});
}

TEST(SafetensorsFolder, ReadsASingleFileByItsNameOrItsFolder) {
  const fs::path shard = kSharded / "model-00002-of-00002.safetensors";
  const TemporaryFolder copy;
  fs::copy(shard, copy.path() / "model.safetensors");
  for (const fs::path& path : {shard, copy.path()}) {
    const SafetensorsFolder folder(path);
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"head", "norm"}));
    EXPECT_EQ(read_floats(folder, "norm"), (std::vector<float>{1, 2}));
  }
}

TEST(SafetensorsFolder, RefusesAFolderWithoutAModel) {
  const TemporaryFolder folder;
  expect_error([&] { SafetensorsFolder open(folder.path()); },
               {folder.path().string(), "neither model.safetensors nor", kIndex});
  expect_error([&] { SafetensorsFolder open(folder.path() / "absent"); }, {"absent", "No such file"});
}

TEST(SafetensorsFolder, RefusesBrokenIndexes) {
  const TemporaryFolder folder;
  fs::copy(kSharded, folder.path());
  const auto expect_index_refused = [&](const std::string& index, std::vector<std::string> parts) {
    SCOPED_TRACE(index);
    folder.write(kIndex, index);
    expect_error([&] { SafetensorsFolder open(folder.path()); }, parts);
  };
  expect_index_refused("", {kIndex, "not JSON"});
  expect_index_refused("[]", {kIndex, "weight_map"});
  expect_index_refused(R"({"weight_map":[]})", {kIndex, "weight_map"});
  expect_index_refused(R"({"weight_map":{"a":1}})", {kIndex, "\"a\"", "is in 1"});
  expect_index_refused(R"({"weight_map":{"a":"../b"}})", {kIndex, "\"a\"", "\"../b\"", "beside the index"});
  expect_index_refused(R"({"weight_map":{"a":"absent.safetensors"}})",
                       {"absent.safetensors", "No such file"});
  expect_index_refused(R"({"weight_map":{"embed":"model-00002-of-00002.safetensors"}})",
                       {kIndex, "\"embed\"", "model-00002-of-00002.safetensors"});
}

}  // namespace
}  // namespace tessera
