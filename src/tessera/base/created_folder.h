// CreatedFolder: a folder for files that are about to be written, made with those above it. When it goes,
// those of them that it made and that are still empty go too: a disk that is full leaves no folders without
// files.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace tessera {

class CreatedFolder {
 public:
  explicit CreatedFolder(const std::filesystem::path& folder,
                         std::string_view key = {});  // see create_folder
  ~CreatedFolder();
  CreatedFolder(const CreatedFolder&) = delete;
  CreatedFolder& operator=(const CreatedFolder&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the deepest first
};

}  // namespace tessera
