#include "tessera/data/bert_shards.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "data/scratch_folder.h"
#include "tessera/data/hdf5_file.h"
#include "tessera/data/npy_file.h"
#include "tessera/data/prefetch_loader.h"
#include "tessera/data/shuffle_order.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldenShards = TESSERA_SOURCE_DIR "/tests/golden/bert_hdf5";

fs::path golden_shard(std::size_t number) {
  return kGoldenShards / ("wikicorpus_training_" + std::to_string(number) + ".hdf5");
}

std::vector<std::int32_t> golden_array(const std::string& name, std::size_t number) {
  const NpyFile file(kGoldenShards / (name + "_" + std::to_string(number) + ".npy"));
  const auto values = file.values<std::int32_t>();
  return {values.begin(), values.end()};
}

TEST(BertShard, HasTheOriginalsLabels) {
  const auto expected = nlohmann::json::parse(get_file(kGoldenShards / "expected.json"));
  for (std::size_t number = 0; number < 3; ++number) {
    const BertShard shard = read_bert_shard(golden_shard(number));
    EXPECT_EQ(shard.num_rows, expected["shards"][number]["rows"].get<std::int64_t>());
    EXPECT_EQ(shard.seq_len, 64);
    EXPECT_EQ(shard.max_predictions, 10);
    EXPECT_TRUE(shard.input_ids == golden_array("input_ids", number));
    std::vector<std::int32_t> labels(shard.input_ids.size());
    for (std::int64_t row = 0; row < shard.num_rows; ++row)
      copy_labels(shard, row, std::span(labels).subspan(static_cast<std::size_t>(row * 64), 64));
    EXPECT_TRUE(labels == golden_array("labels", number)) << number;
  }
}

TEST(BertShard, IsReadBackAsWritten) {
  const ScratchFolder folder;
  const BertShard shard = read_bert_shard(golden_shard(1));
  write_bert_shard(folder / "x_training_0.hdf5", shard);
  const BertShard back = read_bert_shard(folder / "x_training_0.hdf5");
  EXPECT_TRUE(
      back.input_ids == shard.input_ids && back.input_mask == shard.input_mask &&
      back.segment_ids == shard.segment_ids && back.masked_lm_positions == shard.masked_lm_positions &&
      back.masked_lm_ids == shard.masked_lm_ids && back.next_sentence_labels == shard.next_sentence_labels);
}

// The golden shards in the order of the original: its files, its rows, its labels.
TEST(BertShards, FollowTheOriginalsOrder) {
  BertShards shards(kGoldenShards, {.vocab_size = 30522, .num_data_ranks = 3});
  EXPECT_EQ(shards.seq_len(), 64);
  ASSERT_EQ(shards.samples_per_epoch(), 37 + 48 + 59);
  Batch batch = Batch::of_pairs(1, 64);
  std::int64_t sample = 0;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    for (const std::int64_t number : python_shuffle(epoch, 3)) {
      const auto file = static_cast<std::size_t>(number);
      const BertShard shard = read_bert_shard(golden_shard(file));
      const auto ids = golden_array("input_ids", file), labels = golden_array("labels", file);
      for (const std::int64_t row : torch_permutation(0, shard.num_rows)) {
        shards.fill(sample, batch);
        const BertShards::Place place = shards.place_of(sample);
        ASSERT_EQ(place.epoch, static_cast<std::int64_t>(epoch));
        ASSERT_EQ(place.shard, file);
        ASSERT_EQ(place.row, row);
        ASSERT_TRUE(std::equal(batch.inputs.begin(), batch.inputs.end(), ids.begin() + row * 64)) << sample;
        ASSERT_TRUE(std::equal(batch.targets.begin(), batch.targets.end(), labels.begin() + row * 64))
            << sample;
        ASSERT_TRUE(std::equal(batch.token_types.begin(), batch.token_types.end(),
                               shard.segment_ids.begin() + row * 64));
        for (std::int64_t t = 0; t < 64; ++t)
          ASSERT_EQ(t < batch.key_counts[0], shard.input_mask[static_cast<std::size_t>(row * 64 + t)] == 1);
        ASSERT_EQ(batch.next_sentence[0], shard.next_sentence_labels[static_cast<std::size_t>(row)]);
        ++sample;
      }
    }
  }
}

// Two ranks in two threads, each with a reader of its own and its half of the samples, see what one sees.
TEST(BertShards, AreSplitOverRanks) {
  BertShards whole(kGoldenShards, {.vocab_size = 30522});
  Batch all = Batch::of_pairs(400, 64);
  whole.fill(0, all);
  std::vector<Batch> parts(2, Batch::of_pairs(200, 64));
  std::vector<std::thread> ranks;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      BertShards mine(kGoldenShards, {.vocab_size = 30522, .num_data_ranks = 2});
      mine.fill(200 * rank, parts[static_cast<std::size_t>(rank)]);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Batch& part = parts[rank];
    EXPECT_TRUE(std::ranges::equal(part.targets, std::span(all.targets).subspan(rank * 200 * 64, 200 * 64)));
    EXPECT_TRUE(
        std::ranges::equal(part.next_sentence, std::span(all.next_sentence).subspan(rank * 200, 200)));
  }
}

TEST(BertShards, AreReadThroughALoaderThatStartsAnywhere) {
  BertShards shards(kGoldenShards, {.vocab_size = 30522}), direct(kGoldenShards, {.vocab_size = 30522});
  Batch expected = Batch::of_pairs(16, 64);
  for (const std::int64_t start : {0, 1000, 37, 4}) {
    PrefetchLoader loader([&](std::int64_t sample, Batch& batch) { shards.fill(sample, batch); },
                          {.batch_size = 16, .seq_len = 64, .first_sample = start, .pairs = true});
    for (std::int64_t sample = start; sample < start + 200; sample += 16) {
      const Batch& batch = loader.next();
      direct.fill(sample, expected);
      ASSERT_EQ(batch.inputs, expected.inputs);
      ASSERT_EQ(batch.targets, expected.targets);
      ASSERT_EQ(batch.next_sentence, expected.next_sentence);
    }
  }
}

class BadBertShards : public testing::Test {
 protected:
  BadBertShards() : shard_(read_bert_shard(golden_shard(0))) {}

  // All datasets of the shard but one, which `other` may write instead.
  void write_without(const std::string& missing, const std::function<void(Hdf5Writer&)>& other = {}) const {
    Hdf5Writer file(path());
    const std::vector<std::int64_t> tokens{shard_.num_rows, 64}, predictions{shard_.num_rows, 10};
    const auto put = [&](const std::string& name, const auto& values,
                         const std::vector<std::int64_t>& shape) {
      if (name != missing) file.write(name, values, shape);
    };
    put("input_ids", shard_.input_ids, tokens);
    put("input_mask", shard_.input_mask, tokens);
    put("segment_ids", shard_.segment_ids, tokens);
    put("masked_lm_positions", shard_.masked_lm_positions, predictions);
    put("masked_lm_ids", shard_.masked_lm_ids, predictions);
    put("next_sentence_labels", shard_.next_sentence_labels, {shard_.num_rows});
    if (other) other(file);
    file.commit();
  }

  fs::path path() const { return folder_ / "c_training_0.hdf5"; }
  fs::path folder() const { return path().parent_path(); }

  template <class... Parts>
  void expect_refused(const Parts&... parts) const {
    expect_error([&] { BertShards(folder(), {.vocab_size = 30522}); }, path().string(), parts...);
  }

  ScratchFolder folder_;
  BertShard shard_;
};

TEST_F(BadBertShards, AreRefusedWhenADatasetIsMissing) {
  for (const char* name : {"input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids",
                           "next_sentence_labels"}) {
    write_without(name);
    expect_refused(std::string("no dataset \"") + name + "\"", "found: ");
  }
}

TEST_F(BadBertShards, AreRefusedWhenADatasetHasOtherRows) {
  write_without("next_sentence_labels", [](Hdf5Writer& file) {
    file.write("next_sentence_labels", std::vector<std::int8_t>(36), {36});
  });
  expect_refused("\"next_sentence_labels\" has shape (36,), expected (37,)");
}

TEST_F(BadBertShards, AreRefusedWhenTheyAreNoHdf5) {
  put_file(path(), "nothing of the kind");
  expect_refused("not an HDF5 file");
  put_file(path(), get_file(golden_shard(0)).substr(0, 9000));
  expect_refused("cut off");
}

// A file whose chunks were never written may promise anything. 2^66 elements are 0 to a 64-bit number.
TEST_F(BadBertShards, AreRefusedWhenTheyPromiseMoreThanThereIsMemory) {
  for (const auto& [rows, text] : {std::pair{hsize_t{1} << 57, "(144115188075855872, 64)"},
                                   {hsize_t{1} << 60, "(1152921504606846976, 64)"},
                                   {hsize_t{1} << 40, "(1099511627776, 64)"}}) {
    const hid_t file = H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const auto put = [&, rows = rows](const char* name, std::vector<hsize_t> dims) {
      dims.insert(dims.begin(), rows);
      const int rank = static_cast<int>(dims.size());
      const hid_t space = H5Screate_simple(rank, dims.data(), nullptr),
                  layout = H5Pcreate(H5P_DATASET_CREATE);
      dims[0] = 1;
      H5Pset_chunk(layout, rank, dims.data());
      H5Dclose(H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
      H5Pclose(layout);
      H5Sclose(space);
    };
    for (const char* name : {"input_ids", "input_mask", "segment_ids"}) put(name, {64});
    for (const char* name : {"masked_lm_positions", "masked_lm_ids"}) put(name, {10});
    put("next_sentence_labels", {});
    H5Fclose(file);
    expect_error([&] { read_bert_shard(path()); }, path().string(), "dataset \"input_ids\" has shape ", text,
                 "GB of memory of this machine");
  }
}

TEST_F(BadBertShards, AreRefusedForAnotherLengthOrVocabulary) {
  write_bert_shard(path(), shard_);
  expect_error([&] { BertShards(folder(), {.vocab_size = 30522, .seq_len = 128}); }, path().string(),
               "sequences of 64 tokens, expected 128");
  BertShards shards(folder(), {.vocab_size = 1000});
  Batch batch = Batch::of_pairs(1, 64);
  expect_error([&] { shards.fill(0, batch); }, path().string(), "input_ids", "vocabulary has 1000 ids");
  shard_.masked_lm_positions[3] = 64;
  write_bert_shard(path(), shard_);
  BertShards beyond(folder(), {.vocab_size = 30522});
  expect_error([&] { beyond.fill(0, batch); }, path().string(),
               "masked_lm_positions has 64, expected 0 to 63");
}

TEST_F(BadBertShards, AreRefusedWhenThereAreTooFew) {
  expect_error([&] { BertShards(folder(), {.vocab_size = 30522}); }, "found no shard", "*_training_*.hdf5");
  expect_error([&] { BertShards(folder() / "gone", {.vocab_size = 30522}); }, "gone", "no such folder");
  expect_error([&] { BertShards(kGoldenShards, {.vocab_size = 30522, .num_data_ranks = 4}); },
               kGoldenShards.string(), "found 3 shards, expected at least 4");
}

}  // namespace
}  // namespace tessera
