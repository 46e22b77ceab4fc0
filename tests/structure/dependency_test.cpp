// Who may include whom: every include against the module table, and the table against the architecture.
#include <gtest/gtest.h>

#include "structure/module_table.h"

namespace tessera {
namespace {

struct Include {
  std::string target;  // "tessera/base/shape.h" or "mpi.h"
  int line = 0;
};

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*["<]([^">]+)[">])");
  std::vector<Include> includes;
  int number = 0;
  for (const std::string& line : split_lines(text)) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, kInclude)) includes.push_back({match[1].str(), number});
  }
  return includes;
}

// "src/tessera/backend/cpu/gemm.h" and "tessera/backend/cpu/gemm.h" are both of "backend/cpu".
std::string folder_of(const std::string& path) {
  const std::size_t at = path.find("tessera/") + std::string_view("tessera/").size();
  const std::size_t end = path.rfind('/');
  return end > at ? path.substr(at, end - at) : "";
}

bool below(const std::string& folder, const std::string& root) {
  return folder == root || folder.starts_with(root + "/");
}

TEST(ModuleTable, ReadsTheCMakeList) {
  const ModuleTable table = parse_module_table(
      "# a comment\ntessera_module(base LIBRARIES fmt::fmt)\ntessera_module(b/c\n  DEPENDS base d\n  "
      "LIBRARIES x y)\n");
  const ModuleTable expected{{"base", {}}, {"b/c", {"base", "d"}}};
  EXPECT_EQ(table, expected);
}

TEST(Dependencies, EveryFolderIsAModule) {
  const ModuleTable table = module_table();
  for (const SourceFile& file : source_files("src/tessera")) {
    EXPECT_TRUE(table.contains(folder_of(file.path)))
        << file.path << ": its folder has no tessera_module line";
  }
  for (const auto& [folder, depends] : table) {
    for (const std::string& name : depends)
      EXPECT_TRUE(table.contains(name)) << folder << " DEPENDS " << name;
  }
}

TEST(Dependencies, AreAcyclic) {
  const ModuleTable table = module_table();
  for (const auto& [folder, depends] : table) {
    EXPECT_FALSE(reachable(table, folder).contains(folder))
        << folder << " depends on itself through its DEPENDS";
  }
}

TEST(Dependencies, IncludesFollowTheTable) {
  const ModuleTable table = module_table();
  for (const SourceFile& file : source_files("src/tessera")) {
    const std::string folder = folder_of(file.path);
    if (!table.contains(folder)) continue;  // said by EveryFolderIsAModule
    for (const Include& include : includes_of(file.text)) {
      if (!include.target.starts_with("tessera/")) continue;
      const std::string target = folder_of(include.target);
      EXPECT_TRUE(target == folder || table.at(folder).contains(target))
          << file.path << ":" << include.line << ": " << folder << " includes " << include.target
          << " but does not name " << target << " in its DEPENDS";
    }
  }
}

// What a folder must not reach, not even through others.
struct Rule {
  std::string folder;
  std::vector<std::string> never;
};

const std::vector<Rule>& architecture() {
  // The graph's side: values and nodes, which know no device, no communicator and no run.
  static const std::vector<std::string> kMachine{"backend", "comm", "runtime", "checkpoint",
                                                 "data",    "text", "train",   "cli"};
  static const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), kMachine.begin(), kMachine.end());
    return more;
  };
  static const std::vector<Rule> kRules{
      {"graph", with({"ops", "nn", "models"})},
      {"ops", with({"nn", "models", "autodiff", "plan", "optim"})},
      {"nn", with({"models", "autodiff", "plan", "optim"})},
      {"models", with({"autodiff", "plan", "optim"})},
      {"autodiff", with({"nn", "models"})},
      {"partition", with({"nn", "models"})},
      {"plan", with({"nn", "models"})},
      {"pipeline", with({"nn", "models"})},
      {"optim", with({"nn", "models"})},
      {"runtime", {"nn", "models", "backend", "train", "cli"}},
      // Kernels of collectives call a Communicator; which one it is they do not know.
      {"backend", {"nn", "models", "autodiff", "optim", "comm/local", "comm/mpi", "train", "cli"}},
      {"comm", {"graph", "runtime", "backend", "train", "cli"}},
      {"text", {"data", "graph", "train", "cli"}},
      {"data", {"graph", "train", "cli"}},
      {"checkpoint", {"graph", "runtime", "backend", "train", "cli"}},
      {"metrics", {"graph", "runtime", "backend", "train", "cli"}},
      {"train", {"cli"}},
  };
  return kRules;
}

TEST(Dependencies, TheTableFollowsTheArchitecture) {
  const ModuleTable table = module_table();
  ASSERT_TRUE(table.contains("base"));
  EXPECT_TRUE(table.at("base").empty()) << "base is below everything";
  for (const auto& [folder, depends] : table) {
    for (const Rule& rule : architecture()) {
      if (!below(folder, rule.folder)) continue;
      for (const std::string& reached : reachable(table, folder)) {
        for (const std::string& never : rule.never) {
          EXPECT_FALSE(below(reached, never)) << folder << " reaches " << reached;
        }
      }
    }
  }
}

TEST(Dependencies, BackendsNeverSeeEachOther) {
  const ModuleTable table = module_table();
  for (const auto& [folder, depends] : table) {
    if (!below(folder, "backend")) continue;
    for (const std::string& reached : reachable(table, folder)) {
      EXPECT_FALSE(below(reached, "backend")) << folder << " reaches " << reached;
    }
  }
}

TEST(Dependencies, DeviceAndMpiHeadersStayInTheirFolders) {
  static const std::regex kCuda(R"(^(cuda|cublas|cudnn|cutlass|cute|nvrtc|nvtx|nccl|cub/|thrust/).*)");
  static const std::regex kMpi(R"(^mpi(-ext|io)?\.h$)");
  for (const SourceFile& file : source_files("src")) {
    const std::string folder = folder_of(file.path);
    for (const Include& include : includes_of(file.text)) {
      if (std::regex_match(include.target, kCuda)) {
        EXPECT_TRUE(below(folder, "backend/cuda") || below(folder, "comm/nccl"))
            << file.path << ":" << include.line;
      }
      if (std::regex_match(include.target, kMpi)) {
        EXPECT_TRUE(below(folder, "comm/mpi")) << file.path << ":" << include.line;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
