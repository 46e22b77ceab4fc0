#include "tessera/data/token_batches.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "data/scratch_folder.h"
#include "tessera/data/indexed_dataset_writer.h"

namespace tessera {
namespace {

// A corpus whose token i is id i.
class TokenBatchesTest : public testing::Test {
 protected:
  std::shared_ptr<const IndexedDataset> counting_corpus(int num_tokens) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(num_tokens));
    std::iota(tokens.begin(), tokens.end(), 0);
    IndexedDatasetWriter writer(folder_ / "c", TokenDType::u16);
    const std::span<const std::int32_t> all(tokens);
    writer.add_document(all.first(tokens.size() / 3));  // samples run over document bounds
    writer.add_document(all.subspan(tokens.size() / 3));
    writer.finish();
    return std::make_shared<IndexedDataset>(folder_ / "c");
  }

  ScratchFolder folder_;
};

TEST_F(TokenBatchesTest, SamplesOverlapByTheOneTokenToPredict) {
  const auto corpus = counting_corpus(21);
  const SampleSplit split = split_samples(*corpus, 5, 0);
  EXPECT_EQ(split.train.size(), 4);
  EXPECT_EQ(split.valid.size(), 0);
  const TokenBatches batches(corpus, split.train, {.seq_len = 5, .vocab_size = 21});
  Batch batch(2, 5);
  batches.fill(2, batch);
  EXPECT_EQ(batch.first_sample, 2);
  EXPECT_EQ(batch.inputs, (std::vector<std::int32_t>{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{11, 12, 13, 14, 15, 16, 17, 18, 19, 20}));
  batches.fill(3, batch);  // the last sample, then the next epoch's first
  EXPECT_EQ(batch.inputs, (std::vector<std::int32_t>{15, 16, 17, 18, 19, 0, 1, 2, 3, 4}));
}

TEST_F(TokenBatchesTest, AShuffledEpochReadsEverySampleOnce) {
  const auto corpus = counting_corpus(1001);
  const SampleSplit split = split_samples(*corpus, 10, 0.1);
  EXPECT_EQ(split.train.begin, 0);
  EXPECT_EQ(split.train.end, 90);
  EXPECT_EQ(split.valid.begin, 90);
  EXPECT_EQ(split.valid.end, 100);
  const TokenBatches train(corpus, split.train, {.seq_len = 10, .vocab_size = 1001, .shuffle_seed = 5});
  Batch batch(3, 10);
  std::set<std::int32_t> starts;
  std::vector<std::int32_t> order;
  for (std::int64_t sample = 0; sample < 90; sample += 3) {
    train.fill(sample, batch);
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t t = 0; t < 10; ++t) {
        ASSERT_EQ(batch.inputs[row * 10 + t], batch.inputs[row * 10] + static_cast<std::int32_t>(t));
        ASSERT_EQ(batch.targets[row * 10 + t], batch.inputs[row * 10 + t] + 1);
      }
      starts.insert(batch.inputs[row * 10]);
      order.push_back(batch.inputs[row * 10]);
    }
  }
  EXPECT_EQ(starts.size(), 90u);
  EXPECT_EQ(*starts.rbegin(), 890);  // nothing held out
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));

  Batch single(1, 10);  // how samples are grouped into batches changes nothing
  for (std::size_t sample = 0; sample < order.size(); ++sample) {
    train.fill(static_cast<std::int64_t>(sample), single);
    EXPECT_EQ(single.inputs[0], order[sample]);
  }
}

TEST_F(TokenBatchesTest, HoldsOutTheLastSamples) {
  const auto corpus = counting_corpus(1001);
  const SampleSplit split = split_samples(*corpus, 10, 0.001);
  EXPECT_EQ(split.valid.size(), 1);  // less than one sample asked for: one
  const TokenBatches valid(corpus, split.valid, {.seq_len = 10, .vocab_size = 1001});
  Batch batch(1, 10);
  valid.fill(0, batch);
  EXPECT_EQ(batch.inputs[0], 990);
  EXPECT_EQ(batch.targets[9], 1000);
}

TEST_F(TokenBatchesTest, RefusesTooFewTokens) {
  const auto corpus = counting_corpus(21);
  EXPECT_EQ(split_samples(*corpus, 20, 0).train.size(), 1);
  expect_error([&] { split_samples(*corpus, 21, 0); }, "c.bin", "21 tokens", "22");
  expect_error([&] { split_samples(*corpus, 20, 0.5); }, "c.bin", "0.5", "no training sample");
  expect_error([&] { split_samples(*corpus, 5, 1.0); }, "valid_fraction", "1");
  expect_error([&] { split_samples(*corpus, 5, -0.1); }, "valid_fraction", "-0.1");
  expect_error([&] { split_samples(*corpus, 0, 0); }, "seq_len");
  expect_error([&] { TokenBatches(corpus, {0, 0}, {.seq_len = 5, .vocab_size = 21}); }, "no samples");
  const auto nothing = counting_corpus(0);
  expect_error([&] { split_samples(*nothing, 1, 0); }, "c.bin", "0 tokens");
}

TEST_F(TokenBatchesTest, RefusesIdsBeyondTheVocabulary) {
  const auto corpus = counting_corpus(21);
  const auto range = split_samples(*corpus, 5, 0).train;
  Batch batch(1, 5);
  const TokenBatches batches(corpus, range, {.seq_len = 5, .vocab_size = 12});
  batches.fill(1, batch);  // ids 5 to 10
  expect_error([&] { batches.fill(2, batch); }, "c.bin", "token 12 ", "id 12", "12 ids");
  const TokenBatches last(corpus, range, {.seq_len = 5, .vocab_size = 10});
  expect_error([&] { last.fill(1, batch); }, "c.bin", "token 10 ", "id 10", "10 ids");  // the target alone
}

TEST_F(TokenBatchesTest, RefusesNegativeIds) {
  IndexedDatasetWriter writer(folder_ / "n", TokenDType::i32);
  writer.add_document(std::vector<std::int32_t>{1, -1, 2});
  writer.finish();
  const TokenBatches batches(std::make_shared<IndexedDataset>(folder_ / "n"), {0, 1},
                             {.seq_len = 2, .vocab_size = 9});
  Batch batch(1, 2);
  expect_error([&] { batches.fill(0, batch); }, "n.bin", "token 1 ", "id -1");
}

}  // namespace
}  // namespace tessera
