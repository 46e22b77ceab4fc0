// No function is longer than a screen.
#include <gtest/gtest.h>

#include "structure/function_scan.h"
#include "structure/source_tree.h"

namespace tessera {
namespace {

constexpr int kMaxFunctionLines = 60;
constexpr int kMaxCudaFunctionLines = 120;  // a kernel's tiles, loads and stores belong together

TEST(FunctionScan, FindsFunctionsAndTheirLengths) {
  const std::string text =
      "#define OPEN {\n"
      "namespace a {\n"
      "struct S {\n"
      "  int f() const { return '{'; }\n"
      "  int x = 0;\n"
      "};\n"
      "constexpr int kTable[] = {\n"
      "  1, 2,\n"
      "};\n"
      "template <class T>\n"
      "T g(T t) {  // }\n"
      "  if (t) {\n"
      "    h(\"}\", R\"(}})\", 1'000);\n"
      "  }\n"
      "}\n"
      "}\n";
  const std::vector<FunctionBody> functions = scan_functions(text);
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].first_line, 4);
  EXPECT_EQ(functions[0].num_lines, 1);
  EXPECT_EQ(functions[1].first_line, 10);
  EXPECT_EQ(functions[1].num_lines, 6);
}

TEST(Functions, FitOnAScreen) {
  for (const SourceFile& file : source_files({"src", "tests", "bench"})) {
    const bool cuda = file.extension() == ".cu" || file.extension() == ".cuh";
    for (const FunctionBody& function : scan_functions(file.text)) {
      EXPECT_LE(function.num_lines, cuda ? kMaxCudaFunctionLines : kMaxFunctionLines)
          << file.path << ":" << function.first_line << ": " << function.head;
    }
  }
}

}  // namespace
}  // namespace tessera
