#include "tessera/base/folder_lock.h"

#include <gtest/gtest.h>

#include <optional>

#include "checkpoint/temporary_folder.h"

namespace tessera {
namespace {

TEST(FolderLock, IsOnePersonsUntilItGoes) {
  const TemporaryFolder folder;
  std::optional<FolderLock> first(folder.path());
  expect_error([&] { FolderLock second(folder.path()); },
               {"another run is writing into", folder.path().string()});
  first.reset();
  const FolderLock third(folder.path());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "it leaves nothing behind";
}

TEST(FolderLock, RefusesWhatIsNoFolder) {
  const TemporaryFolder folder;
  expect_error([&] { FolderLock lock(folder.path() / "absent"); }, {"absent", "No such file"});
}

}  // namespace
}  // namespace tessera
