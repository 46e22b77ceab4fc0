#include "tessera/data/npy_file.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data/golden_corpus.h"
#include "data/scratch_folder.h"

namespace tessera {
namespace {

template <class T>
void write(const std::filesystem::path& path, const std::vector<T>& values,
           const std::vector<std::int64_t>& shape) {
  NpyWriter file(path, npy_dtype<T>(), shape);
  const std::span<const T> all(values);
  file.write(all.first(all.size() / 3));
  file.write(all.subspan(all.size() / 3));
  file.commit();
}

// A file of numpy.save, read and written again, is the same bytes.
TEST(NpyFile, ReadsAndWritesWhatNumpyWrites) {
  const ScratchFolder folder;
  for (const char* name : {"all_docs_doc_idx.npy", "many_epochs_sample_idx.npy"}) {
    const NpyFile read(kGoldenMaps / name);
    EXPECT_EQ(read.dtype(), "<i4");
    const auto values = read.values<std::int32_t>();
    write<std::int32_t>(folder / name, {values.begin(), values.end()}, read.shape());
    EXPECT_TRUE(get_file(folder / name) == get_file(kGoldenMaps / name)) << name;
  }
  const NpyFile shuffle(kGoldenMaps / "many_epochs_shuffle_idx.npy");
  EXPECT_EQ(shuffle.dtype(), "<u4");
  EXPECT_EQ(shuffle.shape(), (std::vector<std::int64_t>{std::ssize(shuffle.values<std::uint32_t>())}));
}

TEST(NpyFile, RoundTrips) {
  const ScratchFolder folder;
  std::vector<std::int64_t> values(24);
  std::iota(values.begin(), values.end(), std::int64_t{1} << 40);
  write(folder / "a.npy", values, {2, 3, 4});
  const NpyFile read(folder / "a.npy");
  EXPECT_EQ(read.shape(), (std::vector<std::int64_t>{2, 3, 4}));
  const auto back = read.values<std::int64_t>();
  EXPECT_TRUE(std::equal(back.begin(), back.end(), values.begin(), values.end()));
  write<std::uint32_t>(folder / "none.npy", {}, {0});
  EXPECT_EQ(NpyFile(folder / "none.npy").values<std::uint32_t>().size(), 0u);
}

TEST(NpyFile, RefusesWhatIsNotWhole) {
  const ScratchFolder folder;
  const std::string good = get_file(kGoldenMaps / "all_docs_doc_idx.npy");
  const auto expect_refused = [&](const std::string& bytes, const char* part) {
    put_file(folder / "bad.npy", bytes);
    expect_error([&] { NpyFile(folder / "bad.npy"); }, "bad.npy", part);
  };
  expect_refused("", "not a .npy file");
  expect_refused("PK\x03\x04 something else", "not a .npy file");
  expect_refused(good.substr(0, 60), "truncated");
  expect_refused(good.substr(0, good.size() - 4), "does not fit");
  expect_refused(good + "1234", "does not fit");
  std::string changed = good;
  changed.replace(changed.find("<i4"), 3, "<f2");
  expect_refused(changed, "<f2");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    return bytes.replace(bytes.find(from), from.size(), to);
  };
  expect_refused(replaced("False", "True "), "expected C order");
  expect_refused(replaced("descr", "dtype"), "it has no 'descr': '");
  expect_refused(replaced("fortran_order", "fortran_Order"), "it has no 'fortran_order': ");
  expect_refused(replaced("shape", "sizes"), "it has no 'shape': (");
  expect_refused(replaced("'shape': (", "'shape': (x"), "not a .npy shape: (x");
  std::string longer = good;  // by a blank
  longer.insert(longer.find('\n'), " ");
  ++longer[8];
  expect_refused(longer, "found a header of 129 bytes");
  expect_error([&] { NpyFile(folder / "gone.npy"); }, "gone.npy", "No such file");
}

}  // namespace
}  // namespace tessera
