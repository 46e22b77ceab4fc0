// FolderLock: a folder that one process at a time writes into. Held by the rank that writes a run's files,
// and by `tessera data index`, `data bert` and `data bpe`; the kernel lets go of it when the process ends,
// however it ends, and nothing is left on the disk.
#pragma once

#include <filesystem>

namespace tessera {

class FolderLock {
 public:
  // Throws Error if another process holds it. On file systems without locks of folders everybody gets it.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace tessera
