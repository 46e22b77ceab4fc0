// ScratchFolder: an empty folder of this test's own, gone with it; and whole files in and out of it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-data-XXXXXX").string();
    if (!::mkdtemp(name.data())) fail("cannot make {}", name);
    path_ = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

inline void put_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string get_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Runs f and expects an Error whose message has all the given parts.
template <class F, class... Parts>
void expect_error(F&& f, const Parts&... parts) {
  try {
    f();
    ADD_FAILURE() << "no Error thrown";
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const std::string_view part : {std::string_view(parts)...}) {
      EXPECT_NE(message.find(part), std::string::npos) << "\"" << message << "\" lacks \"" << part << "\"";
    }
  }
}

}  // namespace tessera
