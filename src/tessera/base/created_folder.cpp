#include "tessera/base/created_folder.h"

#include <unistd.h>

#include "tessera/base/atomic_file.h"

namespace tessera {

CreatedFolder::CreatedFolder(const std::filesystem::path& folder, std::string_view key) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(folder).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();  // "maps/"
  for (; at.has_relative_path() && !std::filesystem::exists(at, error) && !error; at = at.parent_path())
    made_.push_back(at);
  create_folder(folder, key);
}

CreatedFolder::~CreatedFolder() {
  for (const std::filesystem::path& folder : made_) {
    if (::rmdir(folder.c_str()) != 0) return;  // it holds something, and so do those above it
  }
}

}  // namespace tessera
