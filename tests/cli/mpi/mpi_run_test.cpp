// Ranks as processes: golden models and whole runs under mpiexec, with the bits of the same run in one
// process; and what a user sees when the numbers of ranks differ or a rank is killed.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class MpiRunTest : public ProgramTestFolder {
 protected:
  static std::vector<std::string> on_ranks(int num_ranks, const std::string& program,
                                           const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {TESSERA_MPIEXEC_NUMPROC_FLAG, std::to_string(num_ranks),
                                    (fs::path(TESSERA_BIN_DIR) / program).string()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }

  ProgramResult mpi(int num_ranks, const std::string& program,
                    const std::vector<std::string>& arguments) const {
    return run_program(TESSERA_MPIEXEC, on_ranks(num_ranks, program, arguments), path());
  }
};

TEST_F(MpiRunTest, GoldenModelsOnProcesses) {
  struct Selected {
    int num_ranks;
    const char* model;
    std::vector<std::string> layout;
  };
  const std::vector<Selected> selected = {
      {2, "llama", {"parallel.tp=2", "parallel.sequence=true"}},
      {2, "gpt2", {"parallel.pp=2", "pipeline.schedule=gpipe", "recompute=full"}},
      {4, "llama-gqa", {"parallel.tp=2", "parallel.dp=2", "parallel.zero1=true", "recompute=selective"}},
      {4,
       "qwen2",
       {"parallel.pp=2", "parallel.dp=2", "parallel.zero1=true", "pipeline.schedule=interleaved"}},
      {8, "llama-gqa", {"parallel.tp=8"}},  // pairs of ranks share a key head
      {8,
       "gpt2-erf",
       {"parallel.tp=2", "parallel.pp=2", "parallel.dp=2", "parallel.sequence=true", "parallel.zero1=true"}}};
  for (const Selected& s : selected) {
    std::vector<std::string> arguments = s.layout;
    arguments.insert(arguments.begin(), (fs::path(TESSERA_SOURCE_DIR) / "tests/golden" / s.model).string());
    arguments.push_back("threads=1");
    const ProgramResult result = mpi(s.num_ranks, "golden_check", arguments);
    EXPECT_EQ(result.exit_code, 0) << s.model << "\n" << result.text();
    const std::string verdict = ": all within bounds\n";
    const std::size_t at = result.out.find(verdict);
    ASSERT_NE(at, std::string::npos) << s.model << "\n" << result.text();
    EXPECT_EQ(result.out.find(verdict, at + 1), std::string::npos) << "one rank speaks for all";
  }
}

TEST_F(MpiRunTest, TheBenchmarkTakesOnlyANumber) {
  for (const char* argument : {"--help", "0"}) {
    const ProgramResult result = run_program("bench_collectives_mpi", {argument}, path());
    EXPECT_EQ(result.exit_code, 2) << result.text();
    EXPECT_EQ(result.err, "usage: bench_collectives_mpi [REPETITIONS]\n");
  }
}

TEST_F(MpiRunTest, ProcessesAndThreadsGiveTheSameBits) {
  const std::vector<std::vector<std::string>> layouts = {{"parallel.tp=2", "parallel.sequence=true"},
                                                         {"parallel.dp=2", "parallel.zero1=true"},
                                                         {"parallel.pp=2"}};
  for (const std::vector<std::string>& layout : layouts) {
    const std::string name = layout[0];
    std::vector<std::string> arguments = {"train", "run.yaml", "train.micro_batch=1"};
    arguments.insert(arguments.end(), layout.begin(), layout.end());
    arguments.push_back("train.out=threads-" + name);
    expect_success(arguments);
    arguments.back() = "train.out=processes-" + name;
    const ProgramResult result = mpi(2, "tessera", arguments);
    ASSERT_EQ(result.exit_code, 0) << result.text();
    SCOPED_TRACE(name);
    expect_same_run("threads-" + name, "processes-" + name);
    EXPECT_EQ(partial_files(path()), std::vector<std::string>{});
  }
}

TEST_F(MpiRunTest, OneProcessRunsAsWithoutALauncher) {
  expect_success({"train", "run.yaml", "train.out=alone"});
  const ProgramResult result = mpi(1, "tessera", {"train", "run.yaml", "train.out=launched"});
  ASSERT_EQ(result.exit_code, 0) << result.text();
  EXPECT_EQ(result.err.find(" of rank 0 of "), std::string::npos) << result.text();
  expect_same_run("alone", "launched");
}

// Rank 0 makes the files of a run's data, the others wait for them.
TEST_F(MpiRunTest, IndexMapsAreMadeOnce) {
  const std::vector<std::string> arguments{"train",           "run.yaml",      "data.kind=megatron",
                                           "data.cache=maps", "parallel.dp=4", "train.micro_batch=1",
                                           "data.split=1,0,0"};
  const ProgramResult result = mpi(4, "tessera", arguments);
  ASSERT_EQ(result.exit_code, 0) << result.text();
  const std::string made = "made maps/corpus_train_indexmap_48ns_16sl_1234s_doc_idx.npy";
  const std::size_t at = result.err.find(made);
  ASSERT_NE(at, std::string::npos) << result.text();
  EXPECT_EQ(result.err.find(made, at + 1), std::string::npos) << result.text();
  std::vector<std::string> threads = arguments;
  threads.push_back("train.out=threads");
  expect_success(threads);
  expect_same_run("run", "threads");
}

TEST_F(MpiRunTest, ALayoutForAnotherNumberOfRanksIsRefused) {
  const ProgramResult result =
      mpi(3, "tessera", {"train", "run.yaml", "parallel.tp=2", "parallel.pp=2", "train.micro_batch=1"});
  EXPECT_NE(result.exit_code, 0) << result.text();
  const std::string message =
      "parallel.tp = 2 times pp = 2 times dp = 1 are 4 ranks, but the launcher started 3";
  EXPECT_NE(result.err.find(message), std::string::npos) << result.text();
  EXPECT_FALSE(fs::exists(path() / "run/metrics.jsonl"));
}

// A process that has not ended, and who started it.
struct Running {
  pid_t process = 0, parent = 0;
};
std::vector<Running> running_processes() {
  std::vector<Running> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    Running one;
    std::string name;
    char state = 'X';
    if (!(file >> one.process >> name >> state >> one.parent)) continue;
    if (state != 'Z' && state != 'X') found.push_back(one);
  }
  return found;
}

// A run of four ranks that does not end by itself, some steps after its start.
class EndlessMpiRunTest : public MpiRunTest {
 protected:
  std::vector<std::string> arguments() const {
    return on_ranks(
        4, "tessera",
        {"train", "run.yaml", "train.steps=1000000", "schedule.decay_steps=1000000", "train.micro_batch=1",
         "train.save_every=0", "train.eval_every=0", "parallel.tp=2", "parallel.dp=2"});
  }

  std::set<pid_t> wait_for_steps(const Program& program) const {
    while (read_jsonl_log(path() / "run/metrics.jsonl").size() < 3) {
      EXPECT_TRUE(program.running()) << "it ended by itself";
      if (!program.running()) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::set<pid_t> ranks;
    for (const Running& one : running_processes()) {
      if (one.parent == program.id()) ranks.insert(one.process);
    }
    EXPECT_EQ(ranks.size(), 4u);
    return ranks;
  }

  void expect_interrupted(Program& program) const {
    const ProgramResult result = program.wait();
    EXPECT_EQ(result.exit_code, 130) << result.text();
    EXPECT_NE(result.err.find("interrupted: finished step "), std::string::npos) << result.text();
    EXPECT_NE(result.err.find("go on with --resume"), std::string::npos) << result.text();
  }
};

// Rank 0 has the last word: no other ends in a way for which the launcher would end it.
TEST_F(EndlessMpiRunTest, AnyRankMayBeAskedToStop) {
  Program program(TESSERA_MPIEXEC, arguments(), path());
  const std::set<pid_t> ranks = wait_for_steps(program);
  ASSERT_EQ(ranks.size(), 4u);
  ASSERT_EQ(::kill(*std::next(ranks.begin(), 2), SIGTERM), 0);
  expect_interrupted(program);
}

// A signal that Open MPI's launcher passes on, and does not take for its own.
TEST_F(EndlessMpiRunTest, TheLauncherMayBeAskedToStop) {
  Program program(TESSERA_MPIEXEC, arguments(), path());
  ASSERT_EQ(wait_for_steps(program).size(), 4u);
  program.send(SIGUSR1);
  expect_interrupted(program);
}

TEST_F(EndlessMpiRunTest, AKilledRankTakesTheOthersWithIt) {
  Program program(TESSERA_MPIEXEC, arguments(), path());
  const std::set<pid_t> ranks = wait_for_steps(program);
  ASSERT_EQ(ranks.size(), 4u);
  ASSERT_EQ(::kill(*std::next(ranks.begin(), 2), SIGKILL), 0);
  // Whoever waits for the dead rank would wait for ever, and this test until ctest's time limit.
  const auto some_run = [&] {
    const std::vector<Running> all = running_processes();
    return program.running() || std::any_of(all.begin(), all.end(),
                                            [&](const Running& one) { return ranks.contains(one.process); });
  };
  while (some_run()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_NE(program.wait().exit_code, 0);
}

}  // namespace
}  // namespace tessera
