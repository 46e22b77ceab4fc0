#include "tessera/base/created_folder.h"

#include <gtest/gtest.h>

#include "checkpoint/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

TEST(CreatedFolder, GoesWithThoseAboveItWhereNothingWasWritten) {
  TemporaryFolder folder;
  fs::create_directory(folder.path() / "before");
  for (const char* name : {"before/a/b/c", "before/a/b/", "before/a/../a/b", "before/a/./b"}) {
    const CreatedFolder created(folder.path() / name);
    EXPECT_TRUE(fs::is_directory(folder.path() / name));
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "before"));
}

TEST(CreatedFolder, StaysWithWhatItHolds) {
  TemporaryFolder folder;
  {
    const CreatedFolder created(folder.path() / "a/b/c");
    folder.write("a/b/file", "");
  }
  EXPECT_EQ(names_in(folder.path() / "a/b"), std::vector<std::string>{"file"});
}

TEST(CreatedFolder, OneThatWasThereStays) {
  TemporaryFolder folder;
  fs::create_directory(folder.path() / "empty");
  { const CreatedFolder created(folder.path() / "empty"); }
  EXPECT_TRUE(fs::is_directory(folder.path() / "empty"));
  folder.write("file", "");
  expect_error([&] { CreatedFolder created(folder.path() / "file/a", "data.cache"); },
               {"data.cache: cannot create folder", "Not a directory"});
}

}  // namespace
}  // namespace tessera
