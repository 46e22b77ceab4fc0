// What every source file keeps to: its size, its name, its opening comment.
#include <gtest/gtest.h>

#include <array>
#include <regex>

#include "structure/source_tree.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxLines = 400;
constexpr std::size_t kMaxHeaderLines = 150;
constexpr std::size_t kHardMaxLines = 600;

struct Exception {
  std::string_view path;
  std::string_view reason;
};

// Longer than their kind may be, never longer than kHardMaxLines. Empty is how it should stay.
constexpr std::array<Exception, 0> kLongFiles{};

TEST(Files, AreShort) {
  for (const SourceFile& file : source_files({"src", "tests", "bench"})) {
    const std::size_t lines = split_lines(file.text).size();
    const bool excepted = std::ranges::find(kLongFiles, file.path, &Exception::path) != kLongFiles.end();
    const bool public_header = file.is_header() && file.path.starts_with("src/");
    const std::size_t limit = excepted ? kHardMaxLines : public_header ? kMaxHeaderLines : kMaxLines;
    EXPECT_LE(lines, limit) << file.path;
  }
}

TEST(Files, AreNamedForWhatTheyDefine) {
  static const std::regex kVague("utils?|helpers?|common|misc|types?|impl|manager");
  for (const SourceFile& file : source_files({"src", "tests", "bench"})) {
    const std::string stem = std::filesystem::path(file.path).stem().string();
    EXPECT_FALSE(std::regex_match(stem, kVague)) << file.path << ": the name says nothing";
    EXPECT_TRUE(std::regex_match(stem, std::regex("[a-z][a-z0-9_]*")))
        << file.path << ": names are snake_case";
  }
}

TEST(Files, HoldNoPromises) {
  static const std::regex kPromise(R"(\b(TODO|FIXME|XXX)\b)");
  for (const SourceFile& file : source_files({"src", "bench"})) {
    int number = 0;
    for (const std::string& line : split_lines(file.text)) {
      ++number;
      EXPECT_FALSE(std::regex_search(line, kPromise)) << file.path << ":" << number;
    }
  }
}

TEST(Headers, OpenWithACommentAndAGuard) {
  for (const SourceFile& file : source_files({"src", "tests", "bench"})) {
    if (!file.is_header()) continue;
    EXPECT_TRUE(file.text.starts_with("//"))
        << file.path << ": opens with what it is, who makes it, who uses it";
    EXPECT_NE(file.text.find("\n#pragma once\n"), std::string::npos) << file.path;
  }
}

}  // namespace
}  // namespace tessera
