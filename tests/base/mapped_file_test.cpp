#include "tessera/base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "checkpoint/temporary_folder.h"

namespace tessera {
namespace {

TEST(MappedFile, HoldsAWholeFile) {
  TemporaryFolder folder;
  EXPECT_EQ(read_file(folder.write("file", "some bytes")), "some bytes");
  EXPECT_EQ(read_file(folder.write("empty", "")), "");
  EXPECT_EQ(regular_file_bytes(folder.path() / "file"), 10);
  EXPECT_EQ(regular_file_bytes(folder.path() / "empty"), 0);
}

// Nobody writes into the pipe: opened as a file is, it would be waited for.
TEST(MappedFile, OnlyRegularFilesAreRead) {
  TemporaryFolder folder;
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder.path().string(), std::string("/dev/zero")}) {
    const std::string refusal = "cannot read " + path + ": it is not a regular file";
    expect_error([&] { MappedFile file(path); }, {refusal});
    expect_error([&] { regular_file_bytes(path); }, {refusal});
  }
  const std::string none = folder.path() / "none";
  expect_error([&] { MappedFile file(none); }, {"cannot open " + none + ": No such file"});
  expect_error([&] { regular_file_bytes(none); }, {"cannot read " + none + ": No such file"});
}

}  // namespace
}  // namespace tessera
