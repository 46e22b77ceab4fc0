#include "tessera/data/indexed_dataset_writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "data/golden_corpus.h"
#include "data/scratch_folder.h"
#include "tessera/data/indexed_dataset.h"

namespace tessera {
namespace {

TEST(IndexedDatasetWriter, WritesTheBytesOfNeMosBuilder) {
  const ScratchFolder folder;
  const IndexedDataset golden(kGoldenCorpus);
  IndexedDatasetWriter writer(folder / "copy", token_dtype_for_vocabulary(50257));
  for (std::int64_t i = 0; i < golden.num_sequences(); ++i) writer.add_document(golden.sequence(i));
  writer.finish();
  EXPECT_TRUE(get_file(folder / "copy.bin") == get_file(bin_path(kGoldenCorpus)));
  EXPECT_TRUE(get_file(folder / "copy.idx") == get_file(idx_path(kGoldenCorpus)));
}

TEST(IndexedDatasetWriter, ChoosesTheDtypeByVocabulary) {
  EXPECT_EQ(token_dtype_for_vocabulary(65499), TokenDType::u16);
  EXPECT_EQ(token_dtype_for_vocabulary(65500), TokenDType::i32);
}

TEST(IndexedDatasetWriter, RoundTripsEveryDtypeAtItsLimits) {
  const std::vector<std::pair<TokenDType, std::vector<std::int32_t>>> cases = {
      {TokenDType::u8, {0, 1, 255}},
      {TokenDType::i8, {-128, 0, 127}},
      {TokenDType::i16, {-32768, 32767}},
      {TokenDType::u16, {0, 65535}},
      {TokenDType::i32, {-1, 2147483647, 5}},
      {TokenDType::i64, {-2147483647 - 1, 2147483647}},
      {TokenDType::f64, {-2147483647 - 1, 2147483647}},
      {TokenDType::f32, {-1, 1 << 24}},
  };
  for (const auto& [dtype, tokens] : cases) {
    const ScratchFolder folder;
    IndexedDatasetWriter writer(folder / "c", dtype);
    writer.add_document(tokens);
    writer.add_document({});
    writer.add_document(tokens);
    writer.finish();
    const IndexedDataset read(folder / "c");
    EXPECT_EQ(read.dtype(), dtype);
    EXPECT_EQ(read.num_sequences(), 3);
    EXPECT_EQ(read.sequence(0), tokens);
    EXPECT_EQ(read.sequence(1), std::vector<std::int32_t>{});
    EXPECT_EQ(read.sequence(2), tokens) << token_dtype_name(dtype);
    EXPECT_EQ(get_file(folder / "c.bin").size(),
              2 * tokens.size() * static_cast<std::size_t>(token_bytes(dtype)));
  }
}

TEST(IndexedDatasetWriter, StreamsMoreThanItsBuffer) {
  const ScratchFolder folder;
  std::vector<std::int32_t> tokens(1'000'003);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 31 % 65536);
  IndexedDatasetWriter writer(folder / "c", TokenDType::u16);
  const std::span<const std::int32_t> all(tokens);
  writer.add_tokens(all.first(17));
  writer.add_tokens(all.subspan(17));
  writer.end_document();
  writer.finish();
  const IndexedDataset read(folder / "c");
  EXPECT_EQ(read.num_documents(), 1);
  EXPECT_TRUE(read.sequence(0) == tokens);
}

TEST(IndexedDatasetWriter, SplitsADocumentTooLongForOneSequence) {
  const ScratchFolder folder;
  IndexedDatasetWriter writer(folder / "c", TokenDType::u16, 3);
  writer.add_document(std::vector<std::int32_t>{1, 2, 3});
  writer.add_document(std::vector<std::int32_t>{4, 5, 6, 7, 8, 9, 10});
  writer.finish();
  const IndexedDataset read(folder / "c");
  EXPECT_EQ(read.num_documents(), 2);
  EXPECT_EQ(read.num_sequences(), 4);
  EXPECT_EQ(read.document_start(1), 1);
  EXPECT_EQ(read.sequence(2), (std::vector<std::int32_t>{7, 8, 9}));
  EXPECT_EQ(read.sequence(3), (std::vector<std::int32_t>{10}));
}

TEST(IndexedDatasetWriter, RefusesAnIdThatDoesNotFitAndLeavesNothing) {
  const ScratchFolder folder;
  expect_error(
      [&] {
        IndexedDatasetWriter writer(folder / "c", TokenDType::u16);
        writer.add_document(std::vector<std::int32_t>{1, 2, 3});
        writer.add_document(std::vector<std::int32_t>{4, 70000});
      },
      "c.bin", "token 4 ", "70000", "uint16");
  EXPECT_TRUE(folder.empty());
}

TEST(IndexedDatasetWriter, WithoutFinishAnEarlierBuildStays) {
  const ScratchFolder folder;
  const auto build = [&](std::int32_t id, bool finish) {
    IndexedDatasetWriter writer(folder / "c", TokenDType::u16);
    writer.add_document(std::vector<std::int32_t>{id});
    if (finish) writer.finish();
  };
  build(1, true);
  build(2, false);
  EXPECT_EQ(IndexedDataset(folder / "c").sequence(0), std::vector<std::int32_t>{1});
  build(3, true);
  EXPECT_EQ(IndexedDataset(folder / "c").sequence(0), std::vector<std::int32_t>{3});
  EXPECT_FALSE(std::filesystem::exists(folder / "c.bin.partial"));
  EXPECT_FALSE(std::filesystem::exists(folder / "c.idx.partial"));
}

// /dev/null takes bytes but cannot flush them, as a disk that shows only then that it is full.
TEST(IndexedDatasetWriter, AFailedFlushLeavesAnEarlierBuild) {
  const ScratchFolder folder;
  const auto build = [&](std::int32_t id) {
    IndexedDatasetWriter writer(folder / "c", TokenDType::u16);
    writer.add_document(std::vector<std::int32_t>{id});
    writer.finish();
  };
  build(1);
  std::filesystem::create_symlink("/dev/null", folder / "c.idx.partial");
  expect_error([&] { build(2); }, "cannot flush", "c.idx.partial");
  EXPECT_EQ(IndexedDataset(folder / "c").sequence(0), std::vector<std::int32_t>{1});
}

// A limit on the size of files stands in for a full disk: both are a write that fails half-way.
TEST(IndexedDatasetWriter, AFullDiskLeavesNothing) {
  const ScratchFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = 1'500'000;
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  expect_error(
      [&] {
        IndexedDatasetWriter writer(folder / "c", TokenDType::u16);
        writer.add_document(std::vector<std::int32_t>(2'000'000));
        writer.finish();
      },
      "cannot write", "c.bin.partial");
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_TRUE(folder.empty());
}

TEST(IndexedDatasetWriter, RefusesAFolderThatIsNotThere) {
  const ScratchFolder folder;
  expect_error([&] { IndexedDatasetWriter(folder / "missing/c", TokenDType::u16); }, "missing/c.bin");
}

}  // namespace
}  // namespace tessera
