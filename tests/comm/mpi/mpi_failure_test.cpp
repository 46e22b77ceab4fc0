// One rank's end is every rank's end under mpiexec: what the user reads, the exit code, and that nobody stays
// behind. A rank that did stay would make these tests hang until ctest's time limit.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "comm/failing_rank.h"

namespace tessera {
namespace {

// mpi_ranks under mpiexec; what it prints comes as one text.
class MpiRun {
 public:
  MpiRun(int num_ranks, const std::string& arguments)
      : output_(::popen(
            fmt::format("{0} {1} {2} {1} {3} 2>&1", TESSERA_MPIEXEC, num_ranks, TESSERA_MPI_RANKS, arguments)
                .c_str(),
            "r")) {}
  ~MpiRun() {
    if (output_ != nullptr) ::pclose(output_);
  }
  MpiRun(const MpiRun&) = delete;
  MpiRun& operator=(const MpiRun&) = delete;

  std::string next_line() {
    std::string line;
    for (int c; (c = std::fgetc(output_)) != EOF && c != '\n';) line += static_cast<char>(c);
    return line;
  }
  std::string rest() {
    std::string text;
    for (int c; (c = std::fgetc(output_)) != EOF;) text += static_cast<char>(c);
    return text;
  }
  int wait() {
    const int status = ::pclose(output_);
    output_ = nullptr;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::FILE* output_;
};

int times_found(const std::string& text, const std::string& wanted) {
  int times = 0;
  for (std::size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) ++times;
  return times;
}

// Not one that has ended and that nobody has waited for.
bool runs(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string number, name;
  char state = 'X';
  file >> number >> name >> state;
  return state != 'X' && state != 'Z';
}

// A rank other than 0 lets rank 0 speak first, for two seconds: where all ranks wait for the one that fails,
// and where rank 0 alone does, is enough of those.
TEST(MpiFailure, OneRanksFailureEndsRanksThatWait) {
  for (const conformance::Waiting& way : conformance::ways_to_wait()) {
    const std::string name = way.name;
    const int failing = name == "short_all_reduce" || name == "receive" ? 2 : 0;
    MpiRun run(3, fmt::format("wait {} {}", name, failing));
    const std::string text = run.rest();
    EXPECT_NE(run.wait(), 0) << way.name;
    EXPECT_EQ(times_found(text, fmt::format("rank {}: gave up", failing)), 1) << way.name << "\n" << text;
    EXPECT_EQ(times_found(text, "did not wait"), 0) << way.name << "\n" << text;
  }
}

TEST(MpiFailure, AbortEndsTheWorldFromAGroup) {
  MpiRun run(3, "abort");
  const std::string text = run.rest();
  EXPECT_NE(run.wait(), 0);
  EXPECT_EQ(times_found(text, "rank 1: the disk is full"), 1) << text;
}

// The others give rank 0 two seconds to take them with it. A machine that is too busy for that makes them say
// it again: then the next time counts.
TEST(MpiFailure, RanksThatFailTogetherSayItOnce) {
  std::string text;
  for (int attempt = 0; attempt < 3 && times_found(text, "nobody can read it") != 1; ++attempt) {
    MpiRun run(4, "together");
    text = run.rest();
    EXPECT_NE(run.wait(), 0);
  }
  EXPECT_EQ(times_found(text, "nobody can read it"), 1) << text;
}

TEST(MpiFailure, AKilledRankTakesTheOthersWithIt) {
  MpiRun run(3, "forever");
  std::vector<pid_t> ranks;
  while (ranks.size() < 3) {
    const std::string line = run.next_line();
    ASSERT_TRUE(line.starts_with("pid ")) << line << "\n" << run.rest();
    ranks.push_back(std::stoi(line.substr(4)));
  }
  ASSERT_EQ(::kill(ranks[1], SIGKILL), 0);
  run.rest();
  EXPECT_NE(run.wait(), 0);
  for (const pid_t rank : ranks) {
    while (runs(rank)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace
}  // namespace tessera
