// examples/own_model, built against the installed package, as its user runs it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/base/mapped_file.h"

namespace tessera {
namespace {

struct Result {
  int exit_code = -1;
  std::string out;
};

Result run_command(const std::string& command) {
  std::FILE* output = ::popen(command.c_str(), "r");
  Result result;
  for (int c; (c = std::fgetc(output)) != EOF;) result.out += static_cast<char>(c);
  const int status = ::pclose(output);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::vector<double> losses_in(const std::string& text) {
  constexpr std::string_view kBefore = "loss ";
  std::vector<double> losses;
  for (std::size_t at = text.find(kBefore); at != std::string::npos; at = text.find(kBefore, at + 1)) {
    losses.push_back(std::stod(text.substr(at + kBefore.size())));
  }
  return losses;
}

// On local ranks; run once for all tests.
const Result& local_run() {
  static const Result result = run_command(TESSERA_OWN_MODEL);
  return result;
}

TEST(OwnModel, LearnsOnFourRanks) {
  const Result& result = local_run();
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<double> losses = losses_in(result.out);
  ASSERT_EQ(losses.size(), 10u) << result.out;
  EXPECT_LT(losses.front(), 4.16) << "ln 64: better than no idea";
  EXPECT_LT(losses.back(), 0.7) << "half of ln 4, the best that the last token alone allows";
}

// The layout is in force: the gradients are scattered and the weights gathered over dp, layers cut over tp.
TEST(OwnModel, HasTheCollectivesOfItsLayout) {
  const Result& result = local_run();
  for (const char* wanted : {"all_reduce over tp: ", "reduce_scatter over dp: ", "all_gather over dp: "}) {
    EXPECT_NE(result.out.find(wanted), std::string::npos) << wanted << "not in\n" << result.out;
  }
}

#ifdef TESSERA_MPIEXEC
TEST(OwnModel, PrintsTheSameUnderMpi) {
  const Result mpi = run_command(std::string(TESSERA_MPIEXEC) + " 4 " + TESSERA_OWN_MODEL);
  EXPECT_EQ(mpi.exit_code, 0);
  EXPECT_EQ(mpi.out, local_run().out);
}
#endif

TEST(Package, DoesNotPointIntoTheSourceTree) {
  int num_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TESSERA_PREFIX)) {
    if (entry.path().extension() != ".cmake") continue;
    ++num_files;
    EXPECT_EQ(read_file(entry.path()).find(TESSERA_SOURCE_DIR "/src"), std::string::npos) << entry.path();
  }
  EXPECT_GE(num_files, 4) << "config, version, targets and their files";
}

}  // namespace
}  // namespace tessera
