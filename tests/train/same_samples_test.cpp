// That a run goes on with the samples it began with: what would change them is refused by its key's name, and
// what only moves their files is not.
#include <gtest/gtest.h>

#include "tessera/data/indexed_dataset.h"
#include "train/kind_run.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct Change {
  std::string kind, key, value, before;
};

TEST(SameSamplesTest, AnotherOrderOrReadingIsNotResumed) {
  const std::vector<Change> changes = {{"tokens", "data.shuffle", "false", "true"},
                                       {"text", "data.shuffle", "false", "true"},
                                       {"text", "data.json_key", "body", "text"},
                                       {"text", "data.keep_newlines", "false", "true"},
                                       {"megatron", "data.split", "80,18,2", "90,8,2"}};
  for (const Change& change : changes) {
    SCOPED_TRACE(change.kind + " " + change.key);
    KindRun kind(change.kind);
    TinyRun& run = kind.run;
    run.config.train.steps = 2;
    run.train_into("run");
    run.config.train.steps = 4;
    const RunConfig same = run.config;
    const std::vector<std::string> keys = {change.key + "=" + change.value};
    apply_overrides(run.config, keys);
    expect_error([&] { run.train_into("run", true); },
                 {change.key + " = " + change.value + ",", "was trained with " + change.before + ":",
                  "resuming would see other samples"});
    run.config = same;
    run.train_into("run", true);
  }
}

// Of the same files.
TEST(SameSamplesTest, AnotherKindIsNotResumed) {
  KindRun kind("megatron");
  TinyRun& run = kind.run;
  run.config.train.steps = 2;
  run.train_into("run");
  run.config.train.steps = 4;
  run.config.data = {.prefix = run.config.data.prefix};
  expect_error([&] { run.train_into("run", true); },
               {"data.kind = tokens,", "was trained with megatron:", "other samples"});
}

// The samples held out would be trained on, or others take their numbers.
TEST(SameSamplesTest, AnotherShareHeldOutIsNotResumed) {
  KindRun kind("tokens");
  TinyRun& run = kind.run;
  run.config.data.valid_fraction = 0.2;
  run.config.train.steps = 2;
  run.train_into("run");
  run.config.train.steps = 4;
  run.config.data.valid_fraction = 0.1;
  expect_error([&] { run.train_into("run", true); },
               {"data.valid_fraction = 0.1", "was trained with 0.2", "other samples"});
  run.config.data.valid_fraction = DataKeys{}.valid_fraction;
  run.config.data.valid_prefix = run.config.data.prefix;
  expect_error([&] { run.train_into("run", true); },
               {"data.valid_fraction beside validation data of its own = 0,", "was trained with 0.2"});
  run.config.data.valid_prefix.clear();
  run.config.data.valid_fraction = 0.2;
  run.train_into("run", true);
}

// Refused before the maps of other documents are asked for.
TEST(SameSamplesTest, ValidationDataOfItsOwnChangeTheSplit) {
  KindRun kind("megatron");
  TinyRun& run = kind.run;
  run.config.train.steps = 2;
  run.train_into("run");
  run.config.train.steps = 4;
  run.config.data.valid_prefix = run.config.data.prefix;
  expect_error([&] { run.train_into("run", true); },
               {"data.split beside validation data of its own = 1,0,0", "was trained with 90,8,2"});
  run.config.data.valid_prefix.clear();
  run.train_into("run", true);
}

TEST(SameSamplesTest, AnOrderOfAnotherLengthIsNotResumed) {
  KindRun kind("megatron");
  TinyRun& run = kind.run;
  run.config.data.samples = 0;
  run.config.train.steps = 4;
  run.train_into("run");
  run.config.train.steps = 8;
  expect_error([&] { run.train_into("run", true); },
               {"train.steps = 8", "order of 32 samples", "trained in one of 16", "data.samples=16"});
  run.config.data.samples = 16;
  run.train_into("run", true);
}

TEST(SameSamplesTest, CorporaThatHaveGrownAreNotResumed) {
  KindRun kind("megatron");
  TinyRun& run = kind.run;
  run.config.train.steps = 2;
  run.train_into("run");
  run.config.train.steps = 4;
  const std::string prefix = run.config.data.prefix;
  const IndexedDataset before(prefix);
  IndexedDatasetWriter writer(run.path() / "grown", TokenDType::u16);
  for (std::int64_t i = 0; i < before.num_sequences(); ++i) writer.add_document(before.sequence(i));
  writer.add_document(before.sequence(0));
  writer.finish();
  run.config.data.prefix = (run.path() / "grown").string();  // which has no maps yet
  const std::vector<std::string> parts = {
      fmt::format("data.prefix: the corpora have {} documents", before.num_sequences() + 1),
      fmt::format("was trained on {} documents", before.num_sequences())};
  expect_error([&] { run.train_into("run", true); }, parts);
  for (const auto& file : fs::directory_iterator(run.path())) {
    const std::string name = file.path().filename().string();
    EXPECT_TRUE(!name.starts_with("grown") || name == "grown.bin" || name == "grown.idx") << name;
  }
  run.config.data.prefix = prefix;
  run.train_into("run", true);
  run.config.train.steps = 6;
  for (const char* ending : {".bin", ".idx"})
    fs::rename(run.path() / (std::string("grown") + ending), prefix + ending);
  expect_error([&] { run.train_into("run", true); }, parts);  // not of the maps, which are of the old size
}

TEST(SameSamplesTest, ABlendIsResumedWhereItsFilesHaveMoved) {
  KindRun kind("blend");
  TinyRun& run = kind.run;
  run.config.train.steps = 2;
  run.train_into("run");
  run.config.train.steps = 4;
  std::string& weight = run.config.data.blend[0];
  std::string& prefix = run.config.data.blend[1];
  weight = "0.4";
  expect_error([&] { run.train_into("run", true); },
               {"data.blend without its prefixes = 0.4,0.7", "was trained with 0.3,0.7"});
  weight = "0.3";
  for (const char* ending : {".bin", ".idx"}) fs::rename(prefix + ending, prefix + "-moved" + ending);
  prefix += "-moved";
  run.train_into("run", true);
}

}  // namespace
}  // namespace tessera
