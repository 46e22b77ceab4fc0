// The project's own source files as text, for the tests that read the code instead of running it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct SourceFile {
  std::string path;  // from the project's root: "src/tessera/base/shape.h"
  std::string text;

  std::string extension() const { return std::filesystem::path(path).extension().string(); }
  bool is_header() const { return extension() == ".h" || extension() == ".cuh"; }
};

inline std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::string read_source(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The C++ and CUDA files below `folder` ("src"), by path.
inline std::vector<SourceFile> source_files(const std::string& folder) {
  constexpr std::string_view kExtensions[] = {".h", ".cpp", ".cu", ".cuh", ".def"};
  const std::filesystem::path root = TESSERA_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || std::ranges::find(kExtensions, extension) == std::end(kExtensions))
      continue;
    files.push_back(
        {std::filesystem::relative(entry.path(), root).generic_string(), read_source(entry.path())});
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

inline std::vector<SourceFile> source_files(std::initializer_list<const char*> folders) {
  std::vector<SourceFile> all;
  for (const char* folder : folders)
    std::ranges::move(source_files(std::string(folder)), std::back_inserter(all));
  return all;
}

}  // namespace tessera
