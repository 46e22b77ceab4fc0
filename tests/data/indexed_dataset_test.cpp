#include "tessera/data/indexed_dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "data/golden_corpus.h"
#include "data/scratch_folder.h"

namespace tessera {
namespace {

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The fields of an .idx one by one, so that each can be wrong on its own.
struct Fields {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  std::uint8_t code = 8;
  std::uint64_t num_sequences = 3;
  std::uint64_t num_bounds = 3;
  std::vector<std::int32_t> sizes{2, 0, 3};
  std::vector<std::int64_t> pointers{0, 4, 4};
  std::vector<std::int64_t> documents{0, 2, 3};
  std::string bin{"\1\0\2\0\3\0\4\0\5\0", 10};

  std::string idx() const {
    std::string bytes = magic;
    put(bytes, version);
    put(bytes, code);
    put(bytes, num_sequences);
    put(bytes, num_bounds);
    for (const auto size : sizes) put(bytes, size);
    for (const auto pointer : pointers) put(bytes, pointer);
    for (const auto document : documents) put(bytes, document);
    return bytes;
  }
};

class IndexedDatasetFiles : public testing::Test {
 protected:
  IndexedDataset open(const std::string& idx, const std::string& bin) {
    put_file(folder_ / "c.idx", idx);
    put_file(folder_ / "c.bin", bin);
    return IndexedDataset(folder_ / "c");
  }
  IndexedDataset open(const Fields& fields) { return open(fields.idx(), fields.bin); }

  template <class... Parts>
  void expect_refused(const Fields& fields, const Parts&... parts) {
    expect_error([&] { open(fields); }, parts...);
  }

  ScratchFolder folder_;
};

TEST(IndexedDataset, ReadsTheFileOfNeMosBuilder) {
  const IndexedDataset golden(kGoldenCorpus);
  EXPECT_EQ(golden.dtype(), TokenDType::u16);
  EXPECT_EQ(golden.num_sequences(), 57);
  EXPECT_EQ(golden.num_documents(), 57);
  EXPECT_EQ(golden.num_tokens(), 10787);
  EXPECT_EQ(golden.sequence_tokens(0), 365);
  EXPECT_EQ(golden.sequence_tokens(56), 324);
  EXPECT_EQ(golden.sequence_start(2), 365 + 258);
  std::vector<std::int32_t> head(6);
  golden.copy_tokens(0, head);
  EXPECT_EQ(head, (std::vector<std::int32_t>{1688, 11513, 48056, 25544, 39168, 25365}));

  const std::string raw = get_file(bin_path(kGoldenCorpus));  // any range is that range of the raw uint16s
  for (const auto& [first, count] : {std::pair{0, 10787}, {360, 10}, {10786, 1}, {10787, 0}, {5000, 3001}}) {
    std::vector<std::int32_t> range(static_cast<std::size_t>(count));
    golden.copy_tokens(first, range);
    for (int i = 0; i < count; ++i) {
      std::uint16_t expected;
      std::memcpy(&expected, raw.data() + 2 * (first + i), 2);
      ASSERT_EQ(range[static_cast<std::size_t>(i)], expected);
    }
  }
}

TEST_F(IndexedDatasetFiles, ReadsSequencesAndDocuments) {
  const IndexedDataset read = open(Fields{});
  EXPECT_EQ(read.num_sequences(), 3);
  EXPECT_EQ(read.num_documents(), 2);
  EXPECT_EQ(read.document_start(1), 2);
  EXPECT_EQ(read.sequence(0), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(read.sequence(1), (std::vector<std::int32_t>{}));
  EXPECT_EQ(read.sequence(2), (std::vector<std::int32_t>{3, 4, 5}));
}

TEST_F(IndexedDatasetFiles, ReadsACorpusWithoutSequences) {
  const IndexedDataset read =
      open({.num_sequences = 0, .num_bounds = 1, .sizes = {}, .pointers = {}, .documents = {0}, .bin = ""});
  EXPECT_EQ(read.num_tokens(), 0);
  EXPECT_EQ(read.num_documents(), 0);
}

TEST_F(IndexedDatasetFiles, RefusesAnInt64TokenThatIsNoId) {
  std::string bin;
  for (const std::int64_t id : {1, 2, 3}) put(bin, id);
  put(bin, std::int64_t{1} << 40);
  put(bin, std::int64_t{5});
  const IndexedDataset read = open({.code = 5, .pointers = {0, 16, 16}, .bin = bin});
  EXPECT_EQ(read.sequence(0), (std::vector<std::int32_t>{1, 2}));
  expect_error([&] { read.sequence(2); }, "c.bin", "token 3 ", "1099511627776");
}

// Code 7 is float32 to Megatron-LM and float64 to NeMo.
TEST_F(IndexedDatasetFiles, ReadsFloatsThatAreIds) {
  std::string singles, doubles;
  for (const int id : {1, 2, 3, 50256, 5}) {
    put(singles, static_cast<float>(id));
    put(doubles, static_cast<double>(id));
  }
  const IndexedDataset of_megatron = open({.code = 7, .pointers = {0, 8, 8}, .bin = singles});
  EXPECT_EQ(of_megatron.dtype(), TokenDType::f32);
  EXPECT_EQ(of_megatron.sequence(2), (std::vector<std::int32_t>{3, 50256, 5}));
  for (const std::uint8_t code : {std::uint8_t{6}, std::uint8_t{7}}) {
    const IndexedDataset of_nemo = open({.code = code, .pointers = {0, 16, 16}, .bin = doubles});
    EXPECT_EQ(of_nemo.dtype(), TokenDType::f64);
    EXPECT_EQ(of_nemo.sequence(2), (std::vector<std::int32_t>{3, 50256, 5}));
  }
  for (const double stranger : {0.5, 1e10, std::nan("")}) {
    std::string bin = doubles.substr(0, 32);
    put(bin, stranger);
    const IndexedDataset read = open({.code = 6, .pointers = {0, 16, 16}, .bin = bin});
    expect_error([&] { read.sequence(2); }, "c.bin", "token 4 ", "not an id");
  }
}

TEST_F(IndexedDatasetFiles, RefusesMissingFiles) {
  expect_error([&] { IndexedDataset(folder_ / "c"); }, "c.idx", "No such file");
  put_file(folder_ / "c.idx", Fields{}.idx());
  expect_error([&] { IndexedDataset(folder_ / "c"); }, "c.bin", "No such file");
}

TEST_F(IndexedDatasetFiles, RefusesAnEmptyOrForeignIdx) {
  const Fields good;
  expect_error([&] { open("", good.bin); }, "c.idx", "empty");
  expect_error([&] { open("MM", good.bin); }, "c.idx", "truncated");
  expect_error([&] { open("hello, this is a text and not an index at all", good.bin); }, "c.idx", "MMIDIDX");
  expect_error([&] { open("TNTIDX" + std::string(80, '\0'), good.bin); }, "c.idx", "legacy");
  expect_error([&] { open(get_file(bin_path(kGoldenCorpus)), good.bin); }, "c.idx", "MMIDIDX");
}

TEST_F(IndexedDatasetFiles, RefusesEveryTruncationAndExtension) {
  const Fields good;
  const std::string idx = good.idx();
  for (std::size_t length = 0; length < idx.size(); ++length) {
    expect_error([&] { open(idx.substr(0, length), good.bin); }, "c.idx");
  }
  expect_error([&] { open(idx + "x", good.bin); }, "c.idx", "found 95");
  for (std::size_t length = 0; length < good.bin.size(); ++length) {
    expect_error([&] { open(idx, good.bin.substr(0, length)); }, "c.bin", "truncated", "5 tokens",
                 "10 bytes");
  }
  expect_error([&] { open(idx, good.bin + "x"); }, "c.bin", "too long", "11 bytes");
}

TEST_F(IndexedDatasetFiles, RefusesWrongHeaderFields) {
  expect_refused({.version = 2}, "c.idx", "version 2", "expected 1");
  expect_refused({.code = 0}, "c.idx", "dtype code 0");
  expect_refused({.code = 9}, "c.idx", "dtype code 9", "uint16");
  expect_refused({.code = 0}, "c.idx", "dtype code 0", "uint16");
  expect_refused({.num_sequences = 4}, "c.idx", "4 sequences");
  expect_refused({.num_sequences = std::uint64_t{1} << 62}, "c.idx", "4611686018427387904 sequences");
  expect_refused({.num_bounds = ~std::uint64_t{0}}, "c.idx", "18446744073709551615 document bounds");
}

TEST_F(IndexedDatasetFiles, RefusesSizesAndPointersThatDisagree) {
  expect_refused({.sizes = {2, -1, 3}}, "c.idx", "sequence 1 has -1");
  expect_refused({.sizes = {2, 0, 4}}, "c.bin", "truncated", "6 tokens", "12 bytes");
  expect_refused({.sizes = {2, 0, 2}}, "c.bin", "too long", "4 tokens");
  expect_refused({.pointers = {0, 4, 2}}, "c.idx", "sequence 2", "byte 2", "expected byte 4");
  expect_refused({.pointers = {2, 4, 4}}, "c.idx", "sequence 0", "byte 2", "expected byte 0");
  expect_refused({.code = 4}, "c.idx", "sequence 1");  // int32 tokens would need other pointers
}

TEST_F(IndexedDatasetFiles, RefusesAWrongDocumentIndex) {
  expect_refused({.documents = {0, 2, 2}}, "c.idx", "ends with 2", "sequences, 3");
  expect_refused({.documents = {0, 2, 4}}, "c.idx", "ends with 4");
  expect_refused({.documents = {1, 2, 3}}, "c.idx", "starts with sequence 1");
  expect_refused({.documents = {0, -2, 3}}, "c.idx", "document 1", "-2");
  expect_refused(
      {.num_sequences = 0, .num_bounds = 0, .sizes = {}, .pointers = {}, .documents = {}, .bin = ""}, "c.idx",
      "document index is empty");
}

}  // namespace
}  // namespace tessera
