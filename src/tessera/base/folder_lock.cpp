#include "tessera/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "tessera/base/error.h"

namespace tessera {

FolderLock::FolderLock(const std::filesystem::path& folder) {
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  TS_CHECK(descriptor_ >= 0, "cannot open {}: {}", folder.string(), errno_text(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  fail("another run is writing into {}: choose another folder, or wait for its end", folder.string());
}

FolderLock::~FolderLock() {
  ::close(descriptor_);
}

}  // namespace tessera
