// Every run in configs/ is one that load_run_config takes, so that none rots when a key changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tessera/train/run_config.h"

namespace tessera {
namespace {

std::vector<std::filesystem::path> shipped_configs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

TEST(Configs, LoadAndNameTheirOwnRunFolder) {
  const auto paths = shipped_configs();
  ASSERT_FALSE(paths.empty());
  for (const auto& path : paths) {
    SCOPED_TRACE(path.string());
    const RunConfig config = load_run_config(path, {});
    EXPECT_TRUE(config.train.out.starts_with("runs/" + path.stem().string())) << config.train.out;
    const DataKeys& data = config.data;
    EXPECT_TRUE(!data.prefix.empty() || !data.blend.empty() || !data.shards.empty() || !data.texts.empty());
  }
}

TEST(Configs, Llama2HasThePublishedShape) {
  const RunConfig config =
      load_run_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs/llama2-7b.yaml", {});
  const ArchitectureKeys model = resolved_architecture(config, 0);
  EXPECT_EQ(model.attention.head_dim, 128);
  EXPECT_EQ(model.attention.kv_heads, 32);
  // Embedding and head, four attention and three MLP matrices a layer, two norms a layer and the last one.
  const std::int64_t h = model.hidden_size;
  const std::int64_t layer = 4 * h * h + 3 * h * model.ffn_size + 2 * h;
  EXPECT_EQ(2 * model.vocab_size * h + model.layers * layer + h, 6'738'415'616);
}

}  // namespace
}  // namespace tessera
