// Whole runs on every kind of data: that they learn, resume to the bit, and do not depend on the layout or on
// how a batch is cut; and that what they read is what the originals read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <tuple>

#include "tessera/data/document_split.h"
#include "tessera/data/gpt_dataset.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/npy_file.h"
#include "tessera/train/from_config.h"
#include "tessera/train/run_data.h"
#include "tessera/train/run_tokenizer.h"
#include "train/kind_run.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(TESSERA_SOURCE_DIR) / "tests/golden";

class DataKindsTest : public testing::TestWithParam<const char*> {
 protected:
  KindRun kind{GetParam()};
  TinyRun& run = kind.run;
};
INSTANTIATE_TEST_SUITE_P(Kinds, DataKindsTest, testing::Values("tokens", "megatron", "blend", "bert", "text"),
                         [](const auto& kind) { return kind.param; });

// To a share of the first loss that only their order can give: what follows is known of the counting tokens,
// BERT's are eight of 61, a text is learned in part.
TEST_P(DataKindsTest, LossesFall) {
  const std::string name = GetParam();
  run.config.train.steps = run.config.schedule.decay_steps = 60;
  run.config.train.global_batch = 16;
  const TrainSummary summary = run.train_into("run");
  const std::vector<double> losses = run.losses("run");
  const double limit = (name == "text" ? 0.7 : name == "bert" ? 0.6 : 0.25) * losses.front();
  EXPECT_LT(losses.back(), limit);
  ASSERT_TRUE(run.reports("run").back().eval_loss.has_value());
  EXPECT_LT(summary.last_eval_loss, limit);
  // Of the tokens alone: beside them BERT's loss has the next sentence's, of about log 2.
  const double next_sentence = summary.last_eval_loss - std::log(summary.last_eval_perplexity);
  EXPECT_NEAR(next_sentence, name == "bert" ? std::log(2.0) : 0.0, name == "bert" ? 0.1 : 1e-6);
}

// The order of the samples is the seed's, but for BERT's: the originals have one order for all.
TEST_P(DataKindsTest, AnotherSeedGivesAnotherOrder) {
  const auto first_batches = [&](std::int64_t seed) {
    RunConfig config = run.config;
    config.train.seed = seed;
    const std::unique_ptr<Model> model = make_model(config, config.data.tokenizer.empty() ? 0 : 300);
    const RunData data = open_run_data(config, *model, {});
    Batch batch = data.train->make_batch(8, config.train.seq_len);
    data.train->fill(0, batch);
    return batch.inputs;
  };
  EXPECT_EQ(first_batches(1), first_batches(1));
  EXPECT_EQ(first_batches(1) == first_batches(2), std::string(GetParam()) == "bert");
}

TEST_P(DataKindsTest, ResumingGivesTheBitsOfTheUninterruptedRun) {
  run.train_into("whole");
  run.config.train.steps = 5;
  run.train_into("parts");
  run.config.train.steps = 12;
  run.train_into("parts", true);
  expect_same_bits(run, "whole", "parts");
}

// Rows differ in how many of their tokens are scored, so a mean of means would show.
TEST_P(DataKindsTest, NeitherMicroBatchesNorRanksMatter) {
  run.config.train.eval_batches = 1000;
  run.train_into("whole");
  const std::vector<StepReport> whole = run.reports("whole");
  const auto expect_same = [&](const std::string& name) {
    const std::vector<StepReport> other = run.reports(name);
    ASSERT_EQ(other.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_NEAR(other[i].loss, whole[i].loss, 1e-5 * whole[i].loss) << name << " step " << i;
      if (!whole[i].eval_loss) continue;
      EXPECT_NEAR(*other[i].eval_loss, *whole[i].eval_loss, 1e-5 * *whole[i].eval_loss) << name;
      EXPECT_NEAR(*other[i].eval_perplexity, *whole[i].eval_perplexity, 1e-4 * *whole[i].eval_perplexity);
    }
  };
  run.config.train.micro_batch = 1;
  run.train_into("ones");
  expect_same("ones");
  for (const auto& [name, tp, pp, dp] : {std::tuple{"dp2", 1, 1, 2}, {"tp2", 2, 1, 1}, {"pp2dp2", 1, 2, 2}}) {
    run.config.parallel = {.tp = tp, .pp = pp, .dp = dp, .sequence = tp > 1};
    kind.train_on_ranks(name);
    expect_same(name);
  }
}

TEST_P(DataKindsTest, FilesAreMadeOnceAndUsedAgain) {
  const std::string name = GetParam();
  const std::int64_t expected = name == "megatron" ? 2 : name == "blend" ? 4 : name == "text" ? 1 : 0;
  run.config.parallel.dp = 2;
  kind.train_on_ranks("first");
  EXPECT_EQ(kind.count_messages("made "), expected);
  EXPECT_EQ(kind.count_messages("reusing "), 0);
  kind.train_on_ranks("second");
  EXPECT_EQ(kind.count_messages("made "), 0);
  EXPECT_EQ(kind.count_messages("reusing "), expected);
  expect_same_bits(run, "first", "second");
}

// The first rows of what is trained on, without their order, are the beginning of the file; with it they are
// not.
TEST(DataKindsTest, UnshuffledSamplesAreThoseOfTheFileInTurn) {
  for (const char* name : {"tokens", "text"}) {
    KindRun kind(name);
    RunConfig& config = kind.run.config;
    std::vector<std::int32_t> wanted = tiny_tokens(3000);
    if (config.data.kind == DataKindName::text) {
      wanted.clear();
      const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(config.data.tokenizer);
      std::istringstream lines(bytes_of(config.data.texts[0]));
      for (std::string line; std::getline(lines, line);) {
        for (const std::int32_t id : tokenizer->encode(line + "\n")) wanted.push_back(id);
      }
    }
    wanted.resize(5 * 16);
    const std::unique_ptr<Model> model = make_model(config, tokenizer_vocab_size(config.data));
    for (const bool shuffle : {false, true}) {
      config.data.shuffle = shuffle;
      const RunData data = open_run_data(config, *model, {});
      Batch batch = data.train->make_batch(5, 16);
      data.train->fill(0, batch);
      EXPECT_EQ(std::vector(batch.inputs.begin(), batch.inputs.end()) == wanted, !shuffle) << name;
    }
  }
}

// The golden corpus as NeMo reads it: the maps under its names, byte for byte, and the first samples.
TEST(MegatronDataTest, IsNemos) {
  TinyRun run;
  RunConfig& config = run.config;
  config.data = {.kind = DataKindName::megatron, .prefix = (kGolden / "megatron/corpus").string()};
  config.data.cache = (run.path() / "maps").string();
  config.data.samples = 367;
  config.train.seq_len = 64;
  config.model.architecture.vocab_size = 50257;
  const RunData data = open_run_data(config, *make_model(config, 0), {.valid = false});
  const std::string maps = config.data.cache + "/corpus_train_indexmap_367ns_64sl_1234s_";
  const std::string golden = (kGolden / "megatron/three_epochs_separate_last_").string();
  for (const char* map : {"doc_idx.npy", "sample_idx.npy", "shuffle_idx.npy"})
    EXPECT_TRUE(bytes_of(maps + map) == bytes_of(golden + map)) << map;

  const NpyFile samples(golden + "first_samples.npy");
  ASSERT_EQ(samples.shape(), (std::vector<std::int64_t>{6, 65}));
  const auto tokens = samples.values<std::int32_t>();
  Batch batch = data.train->make_batch(6, 64);
  data.train->fill(0, batch);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t t = 0; t < 64; ++t) {
      EXPECT_EQ(batch.inputs[row * 64 + t], tokens[row * 65 + t]);
      EXPECT_EQ(batch.targets[row * 64 + t], tokens[row * 65 + t + 1]);
    }
  }
}

// One pass over the documents held out, each sample once; a corpus of its own is validated on as a whole.
TEST(MegatronDataTest, ValidatesOnOnePass) {
  KindRun kind("megatron");
  RunConfig& config = kind.run.config;
  const std::unique_ptr<Model> model = make_model(config, 0);
  const IndexedDataset corpus(config.data.prefix);
  const auto tokens_of = [&](const DocumentRange& documents) {
    std::int64_t tokens = 0;
    for (std::int64_t i = documents.begin; i < documents.end; ++i) tokens += corpus.sequence_tokens(i);
    return tokens;
  };
  const auto parts = split_documents(config.data.split, corpus.num_sequences());
  EXPECT_EQ(open_run_data(config, *model, {.train = false}).valid->per_epoch, (tokens_of(parts[1]) - 1) / 16);
  config.data.split = "1,0,0";
  EXPECT_FALSE(open_run_data(config, *model, {}).valid.has_value());
  config.data.split = DataKeys{}.split;
  config.data.valid_prefix = config.data.prefix;
  EXPECT_EQ(open_run_data(config, *model, {.train = false}).valid->per_epoch, (corpus.num_tokens() - 1) / 16);
}

// The same of a blend: all of each corpus, whatever its weight. One that is not one sample of a hundred can
// be validated on, and one that is too small to have anything held out is left out.
TEST(MegatronDataTest, ValidatesOnAllOfABlendOnce) {
  KindRun kind("blend");
  RunConfig& config = kind.run.config;
  IndexedDatasetWriter writer(kind.run.path() / "tiny", TokenDType::u16);
  writer.add_document(std::vector<std::int32_t>(20, 3));
  writer.finish();
  config.data.blend.insert(config.data.blend.end(), {"0.001", (kind.run.path() / "tiny").string()});
  config.data.split = "70,30,0";
  const std::unique_ptr<Model> model = make_model(config, 0);

  // Row by row what each corpus' own maps say, with the share of its corpus that comes before its middle: the
  // corpora are spread evenly.
  std::vector<std::pair<double, std::vector<std::int32_t>>> expected;
  for (const std::size_t item : {1, 3, 5}) {
    const auto corpus = std::make_shared<const IndexedDataset>(config.data.blend[item]);
    GptIndexRequest request{.seq_len = 16, .num_samples = 1, .seed = config.train.seed};
    request.documents = split_documents(config.data.split, corpus->num_sequences())[1];
    if (request.documents.size() == 0) continue;
    std::int64_t tokens = 0;
    for (std::int64_t i = request.documents.begin; i < request.documents.end; ++i)
      tokens += corpus->sequence_tokens(i);
    request.num_samples = (tokens - 1) / 16;
    const GptIndexFiles files = gpt_index_files(kind.run.path(), "expected", Part::valid, request);
    build_gpt_index(*corpus, request, files);
    const GptDataset dataset(corpus, request, files, 61);
    ASSERT_EQ(dataset.num_samples(), request.num_samples);
    for (std::int64_t i = 0; i < dataset.num_samples(); ++i) {
      expected.push_back({(static_cast<double>(i) + 0.5) / static_cast<double>(dataset.num_samples()),
                          std::vector<std::int32_t>(16)});
      dataset.copy_sample(i, 0, expected.back().second);
    }
  }
  std::ranges::stable_sort(expected, {}, [](const auto& row) { return row.first; });
  ASSERT_GT(expected.size(), 40u);
  const RunData data = open_run_data(config, *model, {.train = false});
  ASSERT_EQ(data.valid->per_epoch, std::ssize(expected));
  const auto num_rows = std::ssize(expected) + 3;
  Batch batch = data.valid->make_batch(num_rows, 16);
  data.valid->fill(0, batch);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const auto first = batch.inputs.begin() + row * 16;
    EXPECT_EQ(std::vector(first, first + 16),
              expected[static_cast<std::size_t>(row) % expected.size()].second)
        << row;
  }
}

TEST(DataKindsRefusalTest, AKindThatTheModelDoesNotRead) {
  KindRun bert("bert"), tokens("tokens");
  RunConfig config = tokens.run.config;
  config.data = bert.run.config.data;
  expect_error([&] { open_run_data(config, *make_model(config, 0), {}); },
               {"data.kind = bert", "a model that continues texts"});
  config = bert.run.config;
  config.data = tokens.run.config.data;
  expect_error([&] { open_run_data(config, *make_model(config, 0), {}); },
               {"data.kind = tokens has no key_counts", "expected bert"});
}

}  // namespace
}  // namespace tessera
