// The folders of src/tessera and what each may include, as src/tessera/CMakeLists.txt declares them.
#pragma once

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "structure/source_tree.h"

namespace tessera {

using ModuleTable = std::map<std::string, std::set<std::string>>;  // folder: its DEPENDS

inline ModuleTable parse_module_table(const std::string& cmake) {
  static const std::regex kModule(R"(tessera_module\(([^)]*)\))");
  ModuleTable table;
  for (std::sregex_iterator it(cmake.begin(), cmake.end(), kModule), end; it != end; ++it) {
    std::istringstream words((*it)[1].str());
    std::string folder, word;
    words >> folder;
    std::set<std::string>& depends = table[folder];
    bool in_depends = false;
    while (words >> word) {
      if (word == "DEPENDS" || word == "LIBRARIES") {
        in_depends = word == "DEPENDS";
      } else if (in_depends) {
        depends.insert(word);
      }
    }
  }
  return table;
}

inline ModuleTable module_table() {
  return parse_module_table(
      read_source(std::filesystem::path(TESSERA_SOURCE_DIR) / "src/tessera/CMakeLists.txt"));
}

// Every folder that `folder` reaches through DEPENDS, itself left out unless it is on a cycle.
inline std::set<std::string> reachable(const ModuleTable& table, const std::string& folder) {
  std::set<std::string> seen;
  std::vector<std::string> open{folder};
  while (!open.empty()) {
    const auto found = table.find(open.back());
    open.pop_back();
    if (found == table.end()) continue;
    for (const std::string& next : found->second) {
      if (seen.insert(next).second) open.push_back(next);
    }
  }
  return seen;
}

}  // namespace tessera
