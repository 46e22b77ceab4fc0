// Whole runs on every kind of data: that they learn, resume to the bit, and do not depend on the layout or on
// how a batch is cut; and that what they read is what the originals read.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tessera/data/bert_shard.h"
#include "tessera/data/document_split.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/npy_file.h"
#include "tessera/text/bpe_trainer.h"
#include "tessera/train/from_config.h"
#include "tessera/train/run_data.h"
#include "tessera/train/run_ranks.h"
#include "train/tiny_run.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(TESSERA_SOURCE_DIR) / "tests/golden";

// Pairs of counting sentences, of which up to four tokens are masked; rows differ in length and in masks.
BertShard tiny_shard(std::int64_t num_rows, std::uint32_t state) {
  constexpr std::int64_t kTokens = 16, kPredictions = 4;
  BertShard shard{.num_rows = num_rows, .seq_len = kTokens, .max_predictions = kPredictions};
  const auto draw = [&](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<std::int32_t>((state >> 8) % below);
  };
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::int64_t size = 8 + draw(9), first_size = 3 + draw(3);
    const bool random_next = draw(2) == 1;
    const std::int32_t start = draw(8);
    std::vector<std::int32_t> ids(kTokens, 0), positions(kPredictions, 0), masked(kPredictions, 0);
    for (std::int64_t t = 0; t < size; ++t) {
      const bool second = t >= first_size;
      ids[static_cast<std::size_t>(t)] =
          5 + (start + static_cast<std::int32_t>(t) + (second && random_next ? 4 : 0)) % 8;
      shard.segment_ids.push_back(second ? 1 : 0);
    }
    ids[0] = 2;
    const int num_masked = 1 + draw(kPredictions);
    for (int m = 0; m < num_masked; ++m) {
      const auto at = static_cast<std::size_t>(1 + 2 * m);
      positions[static_cast<std::size_t>(m)] = static_cast<std::int32_t>(at);
      masked[static_cast<std::size_t>(m)] = ids[at];
      ids[at] = 4;
    }
    shard.segment_ids.resize(static_cast<std::size_t>((row + 1) * kTokens), 0);
    for (std::int64_t t = 0; t < kTokens; ++t) shard.input_mask.push_back(t < size ? 1 : 0);
    shard.input_ids.insert(shard.input_ids.end(), ids.begin(), ids.end());
    shard.masked_lm_positions.insert(shard.masked_lm_positions.end(), positions.begin(), positions.end());
    shard.masked_lm_ids.insert(shard.masked_lm_ids.end(), masked.begin(), masked.end());
    shard.next_sentence_labels.push_back(random_next ? 1 : 0);
  }
  return shard;
}

// A TinyRun on data of one kind.
class KindRun {
 public:
  explicit KindRun(const std::string& kind) {
    RunConfig& config = run.config;
    config.data = {};
    if (kind == "tokens") {
      config.data.prefix = (run.path() / "corpus").string();
    } else if (kind == "bert") {
      become_bert();
    } else if (kind == "text") {
      become_text();
    } else {
      become_megatron(kind == "blend");
    }
  }

  TinyRun run;
  std::vector<std::string> messages;  // of the last train_on_ranks

  void train_on_ranks(const std::string& name) {
    run.config.train.out = (run.path() / name).string();
    TrainCallbacks callbacks;
    messages.clear();
    callbacks.message = [&](const std::string& text) { messages.push_back(text); };
    run_ranks(run.config, false, [&](Communicator* world) { train(run.config, false, callbacks, world); });
  }

  std::int64_t count_messages(const std::string& word) const {
    return std::ranges::count_if(messages, [&](const std::string& m) { return m.starts_with(word); });
  }

 private:
  std::string write_documents(const std::string& name, std::size_t num_tokens) {
    IndexedDatasetWriter writer(run.path() / name, TokenDType::u16);
    const std::vector<std::int32_t> tokens = tiny_tokens(num_tokens);
    for (std::size_t at = 0, size = 5; at + size <= tokens.size(); at += size, size = 5 + (size * 7) % 40)
      writer.add_document(std::span(tokens).subspan(at, size));
    writer.finish();
    return (run.path() / name).string();
  }

  void become_megatron(bool blended) {
    DataKeys& data = run.config.data;
    data.kind = DataKindName::megatron;
    data.split = "90,8,2";
    data.samples = 48;
    if (blended) {
      data.blend = {"0.3", write_documents("a", 2000), "0.7", write_documents("b", 4000)};
    } else {
      data.prefix = write_documents("a", 2000);
    }
  }

  void become_bert() {
    DataKeys& data = run.config.data;
    data.kind = DataKindName::bert;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const fs::path folder = run.path() / (i < 3 ? "shards" : "valid");
      fs::create_directories(folder);
      write_bert_shard(folder / ("c_training_" + std::to_string(i) + ".hdf5"), tiny_shard(60 + i, 77 + i));
    }
    data.shards = (run.path() / "shards").string();
    data.valid_shards = (run.path() / "valid").string();
    run.config.model.architecture = {};
    run.config.model.config = (run.path() / "bert.json").string();
    std::ofstream(run.config.model.config) << R"({"model_type": "bert", "vocab_size": 61, "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 16,
      "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})";
  }

  void become_text() {
    DataKeys& data = run.config.data;
    data.kind = DataKindName::text;
    data.texts = {TESSERA_SOURCE_DIR "/LICENSE"};
    data.valid_fraction = 0.1;
    data.cache = (run.path() / "cache").string();
    data.tokenizer = (run.path() / "tokens").string();
    WordCounts counts;
    count_words(bytes_of(data.texts[0]), counts);
    save_bpe_vocabulary(train_bpe(counts, {.vocab_size = 300}), data.tokenizer);
    run.config.model.architecture.vocab_size = 0;  // the tokenizer's
  }
};

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

TEST(MegatronDataTest, AnOrderOfAnotherLengthIsNotResumed) {
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

// The samples held out would be trained on, or others take their numbers.
TEST(DataKindsRefusalTest, AnotherShareHeldOutIsNotResumed) {
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
TEST(DataKindsRefusalTest, ValidationDataOfItsOwnChangeTheSplit) {
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

TEST(DataKindsRefusalTest, CorporaThatHaveGrownAreNotResumed) {
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

TEST(DataKindsTest, ABlendIsResumedWhereItsFilesHaveMoved) {
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
