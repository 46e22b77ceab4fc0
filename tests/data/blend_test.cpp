#include "tessera/data/blend.h"

#include <gtest/gtest.h>

#include "data/scratch_folder.h"
#include "tessera/data/indexed_dataset_writer.h"

namespace tessera {
namespace {

// One number that depends on every place of the blend and its order.
std::int64_t fingerprint(const Blend& blend) {
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < blend.size(); ++i) {
    const Blend::Place place = blend.at(i);
    hash = (hash * 31 + place.corpus * 1000003 + static_cast<std::uint64_t>(place.sample)) %
           (std::uint64_t{1} << 61);
  }
  return static_cast<std::int64_t>(hash);
}

std::pair<std::size_t, std::int64_t> at(const Blend& blend, std::int64_t number) {
  const Blend::Place place = blend.at(number);
  return {place.corpus, place.sample};
}

// The expected values were computed by NeMo's formula in Python, with NumPy's arithmetic.
TEST(Blend, IsNemos) {
  const Blend thirds({1, 1, 1}, {1000, 500, 20}, 5000);
  EXPECT_EQ(fingerprint(thirds), 246755533544831982);
  EXPECT_EQ(at(thirds, 33), std::pair(std::size_t{1}, std::int64_t{0}));
  EXPECT_EQ(at(thirds, 98), std::pair(std::size_t{2}, std::int64_t{12}));
  EXPECT_EQ(at(thirds, 99), std::pair(std::size_t{2}, std::int64_t{12}));
  EXPECT_EQ(at(thirds, 100), std::pair(std::size_t{0}, std::int64_t{33}));
  const Blend unequal({0.7, 0.3}, {300, 90}, 1000);
  EXPECT_EQ(fingerprint(unequal), 134228218476463412);
  EXPECT_EQ(at(unequal, 99), std::pair(std::size_t{1}, std::int64_t{29}));
  EXPECT_EQ(at(unequal, 100), std::pair(std::size_t{0}, std::int64_t{70}));
  const Blend fewer_than_bins({3, 2}, {50, 50}, 7);
  EXPECT_EQ(fingerprint(fewer_than_bins), 1023568577);
  EXPECT_EQ(at(fewer_than_bins, 6), std::pair(std::size_t{1}, std::int64_t{1}));
}

TEST(Blend, AsksForHalfAPerCentMore) {
  EXPECT_EQ(blend_sample_counts(100000, {0.3, 0.5, 0.2}), (std::vector<std::int64_t>{30150, 50250, 20100}));
  EXPECT_EQ(blend_sample_counts(1000, {2}), (std::vector<std::int64_t>{1005}));
}

TEST(Blend, RefusesWeightsThatMeanNothing) {
  expect_error([] { Blend({0, 0}, {10, 10}, 100); }, "weights 0, 0 add up to 0");
  expect_error([] { blend_sample_counts(100, {0.0}); }, "add up to 0");
  expect_error([] { Blend({1, -1}, {10, 10}, 100); }, "weights 1, -1", "0 or more");
  expect_error([] { Blend({}, {}, 100); }, "at least one corpus");
  expect_error([] { Blend({1, 1}, {10}, 100); }, "1 corpora and 2 weights");
  expect_error([] { Blend({0.001, 1}, {10, 10}, 100); }, "corpus 0", "at least 1 of 100");
  expect_error([] { Blend({1, 1}, {10, 0}, 100); }, "corpus 1 has no samples");
}

TEST(BlendedDataset, ReadsEachCorpusInItsTurn) {
  const ScratchFolder folder;
  std::vector<std::shared_ptr<const GptDataset>> corpora;
  for (const std::int32_t id : {7, 8}) {
    const std::string name = "c" + std::to_string(id);
    IndexedDatasetWriter writer(folder / name, TokenDType::u16);
    for (int i = 0; i < 20; ++i) writer.add_document(std::vector<std::int32_t>(30, id));
    writer.finish();
    const auto corpus = std::make_shared<IndexedDataset>(folder / name);
    const GptIndexRequest request{.documents = {0, 20}, .seq_len = 4, .num_samples = 100};
    const GptIndexFiles files = gpt_index_files({}, folder / name, Part::train, request);
    build_gpt_index(*corpus, request, files);
    corpora.push_back(std::make_shared<GptDataset>(corpus, request, files, 100));
  }
  const BlendedDataset blended(corpora, {3, 1}, 100);
  Batch batch(100, 4);
  blended.fill(0, batch);
  EXPECT_EQ(std::count(batch.inputs.begin(), batch.inputs.end(), 7), 75 * 4);
  EXPECT_EQ(std::count(batch.targets.begin(), batch.targets.end(), 8), 25 * 4);
}

}  // namespace
}  // namespace tessera
