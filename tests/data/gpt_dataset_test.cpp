// NeMo's own maps and samples of its own corpus, to the last element.
#include "tessera/data/gpt_dataset.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/golden_corpus.h"
#include "data/scratch_folder.h"
#include "tessera/data/indexed_dataset_writer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const IndexedDataset> golden_corpus() {
  return std::make_shared<IndexedDataset>(kGoldenCorpus);
}

nlohmann::json golden_cases() {
  return nlohmann::json::parse(get_file(kGoldenMaps / "cases.json"));
}

GptIndexRequest request_of(const nlohmann::json& golden) {
  return {.documents = {golden["documents"][0], golden["documents"][1]},
          .seq_len = golden["seq_length"],
          .num_samples = golden["num_samples"],
          .seed = golden["seed"]};
}

GptIndexFiles files_in(const ScratchFolder& folder) {
  return {folder / "doc_idx.npy", folder / "sample_idx.npy", folder / "shuffle_idx.npy"};
}

std::vector<std::int32_t> sample_of(const GptDataset& dataset, std::int64_t number) {
  std::vector<std::int32_t> sample(static_cast<std::size_t>(dataset.seq_len()) + 1);
  dataset.copy_sample(number, 0, sample);
  return sample;
}

TEST(GptIndex, IsNemosToTheLastByte) {
  const auto corpus = golden_corpus();
  const nlohmann::json cases = golden_cases();
  ASSERT_EQ(cases["cases"].size(), 4u);
  EXPECT_EQ(split_documents(cases["split"], corpus->num_sequences())[0].end,
            cases["split_bounds"][1].get<int>());
  for (const auto& golden : cases["cases"]) {
    const std::string name = golden["name"];
    const ScratchFolder folder;
    const GptIndexRequest request = request_of(golden);
    const GptIndexPlan plan = plan_gpt_index(*corpus, request);
    EXPECT_EQ(plan.num_epochs, golden["num_epochs"].get<std::int64_t>()) << name;
    EXPECT_EQ(plan.separate_last_epoch, golden["separate_last_epoch"].get<bool>()) << name;
    EXPECT_EQ(plan.tokens_per_epoch, golden["tokens_per_epoch"].get<std::int64_t>()) << name;
    build_gpt_index(*corpus, request, files_in(folder));
    for (const char* map : {"doc_idx", "sample_idx", "shuffle_idx"}) {
      const std::string file = std::string(map) + ".npy";
      EXPECT_TRUE(get_file(folder / file) == get_file(kGoldenMaps / (name + "_" + file)))
          << name << " " << map;
    }
  }
}

TEST(GptDataset, ReadsNemosSamples) {
  const auto corpus = golden_corpus();
  const nlohmann::json cases = golden_cases();
  ASSERT_EQ(cases["cases"].size(), 4u);
  for (const auto& golden : cases["cases"]) {
    const std::string name = golden["name"];
    const auto file = [&](const char* map) { return kGoldenMaps / (name + "_" + map + ".npy"); };
    const GptDataset dataset(corpus, request_of(golden),
                             {file("doc_idx"), file("sample_idx"), file("shuffle_idx")}, 50257);
    const NpyFile expected(file("first_samples"));
    const auto tokens = expected.values<std::int32_t>();
    const auto size = static_cast<std::size_t>(expected.shape()[1]);
    for (std::int64_t i = 0; i < expected.shape()[0]; ++i) {
      const auto row = tokens.subspan(static_cast<std::size_t>(i) * size, size);
      EXPECT_EQ(sample_of(dataset, i), std::vector(row.begin(), row.end())) << name << " " << i;
    }
  }
}

class SmallGptDataset : public testing::Test {
 protected:
  // Documents of many sizes, empty ones among them; the tokens count up.
  SmallGptDataset() {
    IndexedDatasetWriter writer(folder_ / "c", TokenDType::u16);
    std::int32_t next = 0;
    for (const int size : {5, 0, 1, 40, 3, 0, 2, 17}) {
      std::vector<std::int32_t> document(static_cast<std::size_t>(size));
      std::iota(document.begin(), document.end(), next);
      next += size;
      writer.add_document(document);
    }
    writer.finish();
    corpus_ = std::make_shared<IndexedDataset>(folder_ / "c");
  }

  GptDataset open(const GptIndexRequest& request, std::int64_t vocab_size = 100) const {
    build_gpt_index(*corpus_, request, files_in(folder_));
    return GptDataset(corpus_, request, files_in(folder_), vocab_size);
  }

  ScratchFolder folder_;
  std::shared_ptr<const IndexedDataset> corpus_;
};

// A sample is a stretch of the documents in doc_idx's order, laid end to end.
TEST_F(SmallGptDataset, IsAStretchOfTheShuffledDocuments) {
  for (const std::int64_t seq_len : {1, 2, 7, 30, 68, 200}) {
    const GptIndexRequest request{.documents = {0, 8}, .seq_len = seq_len, .num_samples = 50, .seed = 3};
    const GptDataset dataset = open(request);
    std::vector<std::int32_t> stream;
    const NpyFile doc_idx(folder_ / "doc_idx.npy");
    for (const std::int32_t document : doc_idx.values<std::int32_t>()) {
      const auto tokens = corpus_->sequence(document);
      stream.insert(stream.end(), tokens.begin(), tokens.end());
    }
    const NpyFile file(folder_ / "shuffle_idx.npy");
    const auto shuffle = file.values<std::uint32_t>();
    ASSERT_EQ(dataset.num_samples(), (std::ssize(stream) - 1) / seq_len);
    for (std::int64_t i = 0; i < dataset.num_samples(); ++i) {
      const auto begin = stream.begin() + shuffle[static_cast<std::size_t>(i)] * seq_len;
      ASSERT_EQ(sample_of(dataset, i), std::vector(begin, begin + seq_len + 1)) << seq_len << " " << i;
    }
  }
}

TEST_F(SmallGptDataset, FillsBatchesAndBeginsAgain) {
  const GptDataset dataset = open({.documents = {0, 8}, .seq_len = 7, .num_samples = 9});
  Batch batch(5, 7);
  const std::int64_t first = dataset.num_samples() - 2;
  dataset.fill(first, batch);
  EXPECT_EQ(batch.first_sample, first);
  for (std::int64_t row = 0; row < 5; ++row) {
    const auto sample = sample_of(dataset, (first + row) % dataset.num_samples());
    EXPECT_TRUE(std::equal(sample.begin(), sample.end() - 1, batch.inputs.begin() + row * 7)) << row;
    EXPECT_TRUE(std::equal(sample.begin() + 1, sample.end(), batch.targets.begin() + row * 7)) << row;
  }
}

TEST_F(SmallGptDataset, ReadsTheSameThrough64Bits) {
  GptIndexRequest request{.documents = {1, 8}, .seq_len = 6, .num_samples = 25, .seed = 11};
  std::vector<std::vector<std::int32_t>> narrow;
  const GptDataset dataset = open(request);
  for (std::int64_t i = 0; i < dataset.num_samples(); ++i) narrow.push_back(sample_of(dataset, i));
  request.wide = true;
  const GptDataset wide = open(request);
  for (const char* map : {"doc_idx.npy", "sample_idx.npy", "shuffle_idx.npy"})
    EXPECT_EQ(NpyFile(folder_ / map).dtype(), "<i8") << map;
  ASSERT_EQ(wide.num_samples(), std::ssize(narrow));
  for (std::int64_t i = 0; i < wide.num_samples(); ++i)
    EXPECT_EQ(sample_of(wide, i), narrow[static_cast<std::size_t>(i)]);
}

TEST_F(SmallGptDataset, BuildsOnceUnderTheOriginalsNames) {
  const GptIndexRequest request{.documents = {0, 6}, .seq_len = 6, .num_samples = 25, .seed = 1234};
  const GptIndexFiles beside = gpt_index_files({}, folder_ / "c", Part::train, request);
  EXPECT_EQ(beside.doc_idx, folder_ / "c_train_indexmap_25ns_6sl_1234s_doc_idx.npy");
  fs::create_directory(folder_ / "maps");
  const GptIndexFiles files = gpt_index_files(folder_ / "maps", folder_ / "c", Part::valid, request);
  EXPECT_EQ(files.sample_idx, folder_ / "maps/c_valid_indexmap_25ns_6sl_1234s_sample_idx.npy");
  EXPECT_EQ(files.shuffle_idx, folder_ / "maps/c_valid_indexmap_25ns_6sl_1234s_shuffle_idx.npy");
  EXPECT_TRUE(ensure_gpt_index(*corpus_, request, files));
  const auto written = fs::last_write_time(files.doc_idx);
  EXPECT_FALSE(ensure_gpt_index(*corpus_, request, files));
  EXPECT_EQ(fs::last_write_time(files.doc_idx), written);
  fs::remove(files.shuffle_idx);
  EXPECT_TRUE(ensure_gpt_index(*corpus_, request, files));
}

TEST_F(SmallGptDataset, RefusesMapsOfSomethingElse) {
  const GptIndexRequest request{.documents = {0, 6}, .seq_len = 6, .num_samples = 25, .seed = 1};
  open(request);
  GptIndexRequest other = request;
  other.documents = {0, 8};
  expect_error([&] { GptDataset(corpus_, other, files_in(folder_), 100); }, "sample_idx.npy",
               "shape (33, 2), expected (34, 2)", "remove it and its two others, or give another data.cache");
  // The same number of documents and tokens, but other documents: met where one is read.
  other.documents = {1, 7};
  other.num_samples = 24;
  const GptIndexPlan mine = plan_gpt_index(*corpus_, request);
  const GptIndex index(files_in(folder_), other, mine);
  expect_error(
      [&] {
        for (std::int64_t i = 0; i < 6 * mine.num_epochs; ++i) index.document(i);
      },
      "doc_idx.npy", "document 0, expected 1 to 6");
}

// Of the right shape and with numbers that lead nowhere: met where they are read.
TEST_F(SmallGptDataset, RefusesMapsWithForeignNumbers) {
  const GptIndexRequest request{.documents = {0, 6}, .seq_len = 6, .num_samples = 25, .seed = 1};
  open(request);
  const GptIndexPlan plan = plan_gpt_index(*corpus_, request);
  const auto spoil = [&](const char* name, std::int64_t element, std::int32_t value) {
    std::string bytes = get_file(folder_ / name);
    const std::int64_t count = NpyFile(folder_ / name).values<std::int32_t>().size();
    std::memcpy(bytes.data() + std::ssize(bytes) - 4 * (count - element), &value, 4);
    put_file(folder_ / name, bytes);
  };
  const std::int64_t documents = 6 * plan.num_epochs;
  spoil("sample_idx.npy", 2 * 3, static_cast<std::int32_t>(documents));
  spoil("sample_idx.npy", 2 * 4, -1);
  spoil("sample_idx.npy", 2 * 5 + 1, -7);
  const GptIndex index(files_in(folder_), request, plan);
  expect_error([&] { index.document(documents); }, "doc_idx.npy",
               fmt::format("goes on behind element {}, the last one", documents - 1), "remove it");
  index.sample_start(2);
  const std::string below = fmt::format("expected a document below {}", documents);
  expect_error([&] { index.sample_start(3); }, "sample_idx.npy",
               fmt::format("sample 3 starts at document {}, token", documents), below);
  expect_error([&] { index.sample_start(4); }, "sample 4 starts at document -1, token", below);
  expect_error([&] { index.sample_start(5); }, "sample 5 starts at document", "token -7", below);
}

// Of another corpus with as many documents and tokens, as where a corpus was made again from texts that were
// put right: met with the first sample that it would give other tokens.
TEST_F(SmallGptDataset, RefusesMapsOfAnotherCorpusOfTheSameShape) {
  const GptIndexRequest request{.documents = {0, 8}, .seq_len = 6, .num_samples = 25, .seed = 1};
  open(request);
  const auto remade = [&](const std::vector<int>& sizes) {
    IndexedDatasetWriter writer(folder_ / "c", TokenDType::u16);
    for (const int size : sizes)
      writer.add_document(std::vector<std::int32_t>(static_cast<std::size_t>(size), 7));
    writer.finish();
    return GptDataset(std::make_shared<IndexedDataset>(folder_ / "c"), request, files_in(folder_), 100);
  };
  const auto read_all = [&](const GptDataset& dataset) {
    Batch batch(1, 6);
    for (std::int64_t i = 0; i < dataset.num_samples(); ++i) dataset.fill(i, batch);
  };
  read_all(remade({5, 0, 1, 40, 3, 0, 2, 17}));  // other tokens in the same places
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{
           {17, 2, 0, 3, 40, 1, 0, 5}, {5, 0, 1, 41, 3, 0, 2, 16}, {68, 0, 0, 0, 0, 0, 0, 0}}) {
    const GptDataset other = remade(sizes);
    expect_error([&] { read_all(other); }, "sample_idx.npy: sample ", "starts at document ",
                 "it was made for another corpus; remove it");
  }
}

// Both kinds of a wrong place: behind the end of its document, and elsewhere than the sample before it ends.
TEST_F(SmallGptDataset, RefusesSamplesThatDoNotFollowOneAnother) {
  const GptIndexRequest request{.documents = {3, 4}, .seq_len = 6, .num_samples = 6};
  const auto open_with = [&](std::int32_t sample, std::int32_t offset) {
    build_gpt_index(*corpus_, request, files_in(folder_));
    std::vector<std::int32_t> places;
    for (std::int32_t i = 0; i <= 6; ++i) places.insert(places.end(), {0, i == sample ? offset : 6 * i});
    NpyWriter file(folder_ / "sample_idx.npy", "<i4", {7, 2});
    file.write(std::span<const std::int32_t>(places));
    file.commit();
    return GptDataset(corpus_, request, files_in(folder_), 100);
  };
  const auto read_all = [&](const GptDataset& dataset) {
    for (std::int64_t i = 0; i < 6; ++i) sample_of(dataset, i);
  };
  read_all(open_with(2, 12));
  const GptDataset moved = open_with(6, 35), beyond = open_with(0, 40);
  expect_error(
      [&] { read_all(moved); },
      "sample 6 starts at document 0, token 35, expected document 0, token 36, where the one before");
  expect_error(
      [&] { read_all(beyond); },
      "sample 0 starts at document 0, token 40, expected a token below 40, the size of that document");
}

TEST_F(SmallGptDataset, RefusesAnOrderOfSamplesThatAreNotThere) {
  const GptIndexRequest request{.documents = {0, 6}, .seq_len = 6, .num_samples = 25, .seed = 1};
  open(request);
  const GptIndexPlan plan = plan_gpt_index(*corpus_, request);
  std::vector<std::uint32_t> order(static_cast<std::size_t>(plan.num_samples), 0);
  order[1] = static_cast<std::uint32_t>(plan.num_samples);
  const auto write = [&]<class T>(const std::vector<T>& values) {
    NpyWriter file(folder_ / "shuffle_idx.npy", npy_dtype<T>(), {plan.num_samples});
    file.write(std::span<const T>(values));
    file.commit();
  };
  write(order);
  const GptIndex index(files_in(folder_), request, plan);
  EXPECT_EQ(index.shuffled_sample(0), 0);
  expect_error([&] { index.shuffled_sample(1); }, "shuffle_idx.npy",
               fmt::format("element 1 is sample {0}, expected a number below {0}", plan.num_samples));
  write(std::vector<std::int32_t>(order.size()));
  expect_error([&] { GptIndex(files_in(folder_), request, plan); }, "shuffle_idx.npy",
               "found elements of <i4, expected <u4 or <i8");
}

TEST_F(SmallGptDataset, RefusesBadRequestsAndStrangersIds) {
  const auto plan = [&](GptIndexRequest request) { plan_gpt_index(*corpus_, request); };
  expect_error([&] { plan({.documents = {0, 8}, .seq_len = 0, .num_samples = 1}); }, "seq_len: found 0");
  expect_error([&] { plan({.documents = {0, 8}, .seq_len = 4, .num_samples = 0}); }, "num_samples: found 0");
  expect_error(
      [&] {
        plan({.documents = {0, 8}, .seq_len = 4, .num_samples = 1, .seed = -1});
      },
      "seed: found -1");
  expect_error(
      [&] {
        plan({.documents = {1, 2}, .seq_len = 4, .num_samples = 1});
      },
      "c.bin", "1 to 2 hold no tokens");
  const GptDataset dataset = open({.documents = {0, 8}, .seq_len = 67, .num_samples = 1}, 60);
  expect_error([&] { sample_of(dataset, 0); }, "c.bin", "vocabulary has 60 ids");
}

}  // namespace
}  // namespace tessera
