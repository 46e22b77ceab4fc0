// The benchmarks with arguments that they do not take: their usage, and nothing made or measured.
#include <gtest/gtest.h>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

TEST(BenchArguments, WhatIsNoNumberIsRefusedWithTheUsage) {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> refused = {{"bench_cpu_gemm", "--help"},
                                                         {"bench_cpu_gemm", "0"},
                                                         {"bench_cpu_gemm", "1", "2"},
                                                         {"bench_cpu_attention", "--help"},
                                                         {"bench_cpu_attention", "-5"},
                                                         {"bench_collectives", "--help"},
                                                         {"bench_collectives", "3x"},
                                                         {"bench_gpt_index"},
                                                         {"bench_gpt_index", "--help"},
                                                         {"bench_gpt_index", "new", "many"},
                                                         {"bench_gpt_index", "new", "1", "2"},
                                                         {"bench_step", "--help"},
                                                         {"bench_step", "run.yaml", "threads=1"},
                                                         {"bench_layouts", "--help"},
                                                         {"bench_layouts", "run.yaml", "0"}};
  for (const std::vector<std::string>& line : refused) {
    const ProgramResult result = run_program(line[0], {line.begin() + 1, line.end()}, folder.path());
    EXPECT_EQ(result.exit_code, 2) << line[0] << "\n" << result.text();
    EXPECT_TRUE(result.err.starts_with("usage: " + line[0] + " ")) << result.text();
    EXPECT_EQ(result.out, "");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace tessera
