// A training program that is interrupted, killed, or finds the disk full: the newest checkpoint is whole,
// and the resumed run ends with the bits of one that was left alone.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cli/program_test_folder.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class InterruptTest : public ProgramTestFolder {
 protected:
  // Far more steps than the test waits for; the schedule ends where it ends however many are taken.
  std::vector<std::string> endless(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "run.yaml", "train.steps=1000000", "schedule.decay_steps=1000000",
                               "train.eval_every=0"});
    return more;
  }

  std::vector<std::string> until(std::int64_t step, std::vector<std::string> more) const {
    more.push_back("train.steps=" + std::to_string(step));
    return endless(more);
  }

  std::int64_t steps_logged(const std::string& name) const {
    const std::vector<StepReport> reports = read_jsonl_log(path() / name / "metrics.jsonl");
    return reports.empty() ? 0 : reports.back().step;
  }

  std::int64_t newest_step(const std::string& name) const {
    const auto checkpoints = list_checkpoints(path() / name);
    return checkpoints.empty() ? 0 : checkpoints.rbegin()->first;
  }

  // Until `reached`, or the program ends, which is a failure.
  template <class Condition>
  void wait_until(const Program& program, Condition reached) const {
    while (!reached()) {
      ASSERT_TRUE(program.running()) << "it ended by itself";
      std::this_thread::sleep_for(milliseconds(2));
    }
  }

  void expect_intact(const fs::path& checkpoint) const {
    LoadedCheckpoint loaded(checkpoint);  // its files are checked against their hashes
    EXPECT_FALSE(loaded.file("weights.safetensors").names().empty());
    EXPECT_FALSE(loaded.file("optimizer.safetensors").names().empty());
  }

  static std::string step_folder(std::int64_t step) { return fmt::format("step-{:08}", step); }
};

TEST_F(InterruptTest, CtrlCFinishesTheStepAndSaves) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    SCOPED_TRACE(signal);
    const bool acknowledged = signal == SIGINT || signal == SIGTERM;
    const std::string out = "run" + std::to_string(signal), whole = "whole" + std::to_string(signal);
    Program program("tessera", endless({"train.save_every=0", "train.out=" + out}), path());
    wait_until(program, [&] { return steps_logged(out) >= 5; });
    program.send(signal);  // a terminal, a launcher or `timeout` may say it twice
    std::this_thread::sleep_for(milliseconds(1));
    const ProgramResult result = program.wait(signal);
    const std::int64_t step = steps_logged(out);
    EXPECT_EQ(result.exit_code, 130) << result.text();
    if (acknowledged) {
      EXPECT_NE(result.err.find("finishing this step, then saving"), std::string::npos) << result.text();
    }
    EXPECT_NE(
        result.err.find(fmt::format("interrupted: finished step {} and saved {}/{}; go on with --resume",
                                    step, out, step_folder(step))),
        std::string::npos)
        << result.text();
    EXPECT_EQ(newest_step(out), step);
    expect_intact(path() / out / step_folder(step));
    EXPECT_EQ(partial_files(path()), std::vector<std::string>{});

    expect_success(until(step + 5, {"train.out=" + out, "--resume"}));
    expect_success(until(step + 5, {"train.out=" + whole}));
    expect_same_run(whole, out, step_folder(step + 5));
  }
}

TEST_F(InterruptTest, CtrlCASecondLaterEndsAtOnce) {
  Program program("tessera", endless({"train.global_batch=400000", "train.out=run"}), path());
  wait_until(program, [&] { return fs::exists(path() / "run" / "plan.json"); });
  std::this_thread::sleep_for(milliseconds(100));  // within the first step, which takes minutes
  program.send(SIGINT);
  std::this_thread::sleep_for(milliseconds(1100));
  ASSERT_TRUE(program.running());
  const ProgramResult result = program.wait(SIGINT);
  EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.text();
  EXPECT_NE(result.err.find("once more ends at once"), std::string::npos) << result.text();
  EXPECT_EQ(newest_step("run"), 0);
}

TEST_F(InterruptTest, KilledWhileSavingTheNewestCheckpointIsWhole) {
  const std::vector<std::string> saving = {"train.save_every=1", "train.keep_last=2", "train.out=run",
                                           "--resume"};
  std::int64_t step = 0;
  for (const int delay_ms : {0, 3, 7, 13, 29}) {  // somewhere in a step, a write, a rename or a deletion
    SCOPED_TRACE(delay_ms);
    Program program("tessera", endless(saving), path());
    wait_until(program, [&] { return newest_step("run") > step; });
    std::this_thread::sleep_for(milliseconds(delay_ms));
    EXPECT_EQ(program.wait(SIGKILL).exit_code, 128 + SIGKILL);
    ASSERT_GT(newest_step("run"), step);
    step = newest_step("run");
    expect_intact(path() / "run" / step_folder(step));
    EXPECT_GE(steps_logged("run"), step);
  }
  expect_success(until(step + 3, saving));
  expect_success(until(step + 3, {"train.save_every=0", "train.out=whole"}));
  expect_same_run("whole", "run", step_folder(step + 3));
  EXPECT_EQ(partial_files(path()), std::vector<std::string>{});
}

TEST_F(InterruptTest, AFullDiskWhileSavingLeavesTheEarlierCheckpoint) {
  expect_success({"train", "run.yaml", "train.steps=4"});
  const auto full_disk = [] {  // weights fit below the limit, moments do not; as write(2) reports a full disk
    const rlimit limit{130000, 130000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
  };
  const ProgramResult result =
      Program("tessera", {"train", "run.yaml", "--resume"}, path(), full_disk).wait();
  EXPECT_EQ(result.exit_code, 1) << result.text();
  for (const char* part : {"cannot write run/step-00000008.partial/optimizer.safetensors", "File too large"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.text();
  EXPECT_EQ(newest_step("run"), 4);
  expect_intact(path() / "run/step-00000004");
  EXPECT_EQ(partial_files(path()), std::vector<std::string>{});

  expect_success({"train", "run.yaml", "--resume"});
  expect_success({"train", "run.yaml", "train.out=whole"});
  expect_same_run("whole", "run");
}

}  // namespace
}  // namespace tessera
