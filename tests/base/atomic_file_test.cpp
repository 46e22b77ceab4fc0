#include "tessera/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "checkpoint/temporary_folder.h"

namespace tessera {
namespace {

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  TemporaryFolder folder;
  folder.write("file", "before");
  {
    AtomicFile file(folder.path() / "file");
    file.write("half of");
    EXPECT_EQ(bytes_of(folder.path() / "file"), "before");
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
  write_file(folder.path() / "file", "after");
  EXPECT_EQ(bytes_of(folder.path() / "file"), "after");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
}

TEST(AtomicFile, WritersDoNotWriteIntoEachOthersFiles) {
  TemporaryFolder folder;
  folder.write("file.partial", "what a killed writer has left");
  AtomicFile first(folder.path() / "file");
  first.write("first, ");
  AtomicFile second(folder.path() / "file");
  second.write("second");
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"file.partial", "file.partial2"}));
  first.write("whole");
  first.commit();
  EXPECT_EQ(bytes_of(folder.path() / "file"), "first, whole");
  { AtomicFile third(folder.path() / "file"); }  // takes the name that is free again, and gives up
  EXPECT_EQ(bytes_of(folder.path() / "file"), "first, whole");
  second.commit();
  EXPECT_EQ(bytes_of(folder.path() / "file"), "second");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
}

// A rename over /dev/null would leave the machine without it.
// More of them than descriptors: each is whole on the disk, or gone, without one.
TEST(AtomicFile, WaitsForItsCommitWithoutADescriptor) {
  TemporaryFolder folder;
  const auto num_open = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = num_open();
  {
    AtomicFile kept(folder.path() / "kept"), given_up(folder.path() / "given_up");
    for (AtomicFile* const file : {&kept, &given_up}) {
      file->write("whole");
      file->flush_and_close();
    }
    EXPECT_EQ(num_open(), before);
    EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"given_up.partial", "kept.partial"}));
    kept.commit();
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"kept"});
  EXPECT_EQ(bytes_of(folder.path() / "kept"), "whole");
}

TEST(AtomicFile, OnlyFilesAreReplaced) {
  TemporaryFolder folder;
  const std::filesystem::path pipe = folder.path() / "pipe", inside = folder.path() / "folder";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_directory(inside);
  expect_error([&] { write_file(pipe, "x"); }, {"cannot write " + pipe.string(), "a device or a pipe"});
  expect_error([&] { write_file("/dev/null", "x"); }, {"cannot write /dev/null", "expected a file"});
  expect_error([&] { write_file(inside, "x"); }, {"cannot write " + inside.string(), "found a folder"});
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"folder", "pipe"}));
}

TEST(CreateFolder, NamesTheKeyAndTheFolder) {
  TemporaryFolder folder;
  create_folder(folder.path() / "a/b");
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "a/b"));
  folder.write("file", "");
  const std::string inside = (folder.path() / "file/c").string();
  expect_error([&] { create_folder(inside); }, {"cannot create folder " + inside + ": Not a directory"});
  expect_error([&] { create_folder(inside, "train.out"); }, {"train.out: cannot create folder " + inside});
}

TEST(CheckCanWriteInto, SaysWhatCreateFolderWouldAndLeavesNoTrace) {
  TemporaryFolder folder;
  folder.write("file", "");
  const std::string file = (folder.path() / "file").string();
  expect_error([&] { check_can_write_into(file + "/c/d", "train.out"); },
               {"train.out: cannot create folder " + file + "/c/d: Not a directory"});
  expect_error([&] { check_can_write_into(file); }, {"cannot write into folder " + file});
  for (const char* name : {"", "new", "new/folder/"}) check_can_write_into(folder.path() / name);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
}

TEST(AtomicFile, AFullDiskIsNamed) {
  TemporaryFolder folder;
  // What is written goes through the link to a device that is always full.
  std::filesystem::create_symlink("/dev/full", folder.path() / "file.partial");
  expect_error([&] { write_file(folder.path() / "file", "x"); },
               {"cannot write", "file.partial", "No space left on device"});
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
}

}  // namespace
}  // namespace tessera
