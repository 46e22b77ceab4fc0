// Where a run or a command may not write: folders in use, folders of another model, folders and disks that
// take nothing.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#include "cli/program_test_folder.h"
#include "tessera/base/folder_lock.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public ProgramTestFolder {
 protected:
  // A superuser may read and write anything, so the program runs without these rights.
  ProgramResult without_override(const std::vector<std::string>& arguments) const {
    return Program("tessera", arguments, path(),
                   [] {
                     if (::geteuid() != 0) return;
                     for (const int right : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
                       if (::prctl(PR_CAPBSET_DROP, right) != 0) ::_exit(124);
                     }
                   })
        .wait();
  }
};

TEST_F(RunFolderTest, ARunInTheFolderNeedsResume) {
  expect_success({"train", "run.yaml"});
  const std::string metrics = bytes_of(path() / "run/metrics.jsonl");
  expect_refusal({"train", "run.yaml"}, {"run already holds step-00000012", "--resume", "train.out"});
  EXPECT_EQ(bytes_of(path() / "run/metrics.jsonl"), metrics);
  const ProgramResult again = expect_success({"train", "run.yaml", "--resume"});
  EXPECT_NE(again.err.find("nothing to do: 12 steps are done"), std::string::npos) << again.text();
  EXPECT_EQ(again.out.find("loss 0.0000"), std::string::npos) << again.text();
  EXPECT_EQ(bytes_of(path() / "run/metrics.jsonl"), metrics);
}

// As of a disk that was full by then.
TEST_F(RunFolderTest, AResumeWritesTheSummariesThatARunCouldNot) {
  fs::create_directories(path() / "run" / "loss.svg" / "in the way");
  expect_refusal({"train", "run.yaml"}, {"loss.svg"});
  EXPECT_FALSE(fs::exists(path() / "run/report.html"));
  fs::remove_all(path() / "run" / "loss.svg");
  expect_success({"train", "run.yaml", "--resume"});
  for (const char* file : {"loss.svg", "results.json", "report.html"})
    EXPECT_TRUE(fs::exists(path() / "run" / file)) << file;
  const auto written = fs::last_write_time(path() / "run/report.html");
  expect_success({"train", "run.yaml", "--resume"});
  EXPECT_EQ(fs::last_write_time(path() / "run/report.html"), written);
}

// A run that was killed has lines beyond its newest checkpoint.
TEST_F(RunFolderTest, NothingToDoSpeaksOfTheCheckpointsStep) {
  expect_success({"train", "run.yaml", "train.save_every=8", "train.keep_last=0", "train.eval_every=0"});
  fs::remove_all(path() / "run/step-00000012");
  const ProgramResult again =
      expect_success({"train", "run.yaml", "--resume", "train.steps=8", "train.eval_every=0",
                      "train.save_every=8", "train.keep_last=0", "schedule.decay_steps=12"});
  const std::vector<StepReport> reports = read_jsonl_log(path() / "run/metrics.jsonl");
  ASSERT_EQ(reports.size(), 12u);
  EXPECT_NE(again.out.find(fmt::format("loss {:.4f}", reports[7].loss)), std::string::npos) << again.text();
}

// The log, and not what is printed, would be in the first files that are opened.
TEST_F(RunFolderTest, ClosedStreamsLoseOnlyWhatIsPrinted) {
  const std::string command = "cd '" + path().string() + "' && '" TESSERA_BIN_DIR "/tessera' train run.yaml";
  ASSERT_EQ(std::system((command + " <&- >&- 2>&-").c_str()), 0);
  EXPECT_EQ(read_jsonl_log(path() / "run/metrics.jsonl").size(), 12u);
  EXPECT_TRUE(fs::exists(path() / "run/report.html"));
}

TEST_F(RunFolderTest, ResumeRefusesAnotherModel) {
  expect_success({"train", "run.yaml", "train.steps=4"});
  const std::string saved = bytes_of(path() / "run/config.json");
  expect_refusal({"train", "run.yaml", "--resume", "model.layers=3"},
                 {"run/step-00000004", "another model", "'num_hidden_layers' is 2 there and 3 here"});
  expect_refusal({"train", "run.yaml", "--resume", "train.global_batch=8"},
                 {"train.global_batch = 8", "run/step-00000004 was trained with 4"});
  EXPECT_EQ(bytes_of(path() / "run/config.json"), saved);
  expect_success({"train", "run.yaml", "--resume"});
}

TEST_F(RunFolderTest, AFolderThatAnotherRunWritesIntoIsRefused) {
  fs::create_directory(path() / "run");
  const FolderLock other(path() / "run");
  expect_refusal({"train", "run.yaml"}, {"another run is writing into run"});
  EXPECT_TRUE(fs::is_empty(path() / "run"));
}

TEST_F(RunFolderTest, AResumeOfNothingSaysSo) {
  const ProgramResult result = expect_success({"train", "run.yaml", "--resume"});
  EXPECT_NE(result.err.find("no checkpoint in run: starting anew"), std::string::npos) << result.text();
}

TEST_F(RunFolderTest, AnUnreadableCheckpointIsNotPassedOver) {
  expect_success({"train", "run.yaml", "train.steps=8"});
  fs::permissions(path() / "run/step-00000008", fs::perms::none);
  const ProgramResult result = without_override({"train", "run.yaml", "--resume"});
  fs::permissions(path() / "run/step-00000008", fs::perms::owner_all);
  EXPECT_EQ(result.exit_code, 1) << result.text();
  EXPECT_NE(result.err.find("cannot read run/step-00000008/manifest.json: Permission denied"),
            std::string::npos)
      << result.text();
}

// The checkpoint before it is used, and this is said.
TEST_F(RunFolderTest, ACheckpointWithoutItsManifestIsPassedOverAloud) {
  expect_success({"train", "run.yaml", "train.steps=2", "train.save_every=1"});
  fs::remove(path() / "run/step-00000002/manifest.json");
  const std::vector<std::vector<std::string>> commands = {
      {"eval", "run", "--data", "corpus"},
      {"convert", "run", "hf"},
      {"train", "run.yaml", "model.weights=run", "train.out=next", "train.steps=1"}};
  ProgramResult result;
  for (const std::vector<std::string>& command : commands) {
    result = expect_success(command);
    EXPECT_NE(result.err.find("passing over run/step-00000002: it has no manifest.json"), std::string::npos)
        << result.text();
  }
  EXPECT_NE(result.err.find("starting from the weights in run/step-00000001\n"), std::string::npos)
      << result.text();
}

TEST_F(RunFolderTest, OutputThatCannotBeWritten) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"plan", "run.yaml"}, {"train", "--help"}, {"--help"}}) {
    const ProgramResult result = Program("tessera", arguments, path(), [] {
                                   ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
                                 }).wait();
    EXPECT_EQ(result.exit_code, 1) << result.text();
    EXPECT_NE(result.err.find("cannot write all of the output"), std::string::npos) << result.text();
  }
}

TEST_F(RunFolderTest, ADamagedCheckpointIsRefused) {
  expect_success({"train", "run.yaml", "train.steps=4"});
  const fs::path file = path() / "run/step-00000004/weights.safetensors";
  std::string bytes = bytes_of(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 4);
  folder.write("run/step-00000004/weights.safetensors", bytes);
  expect_refusal({"train", "run.yaml", "--resume"},
                 {"run/step-00000004/weights.safetensors: damaged", "once run/step-00000004 is moved away"});
  expect_refusal({"eval", "run"}, {"run/step-00000004/weights.safetensors: damaged"});
  folder.write("run/step-00000004/weights.safetensors", bytes.substr(0, 99));
  expect_refusal({"convert", "run", "out"}, {"weights.safetensors: found 99 bytes"});
  folder.write("run/step-00000004/manifest.json", "{\"step\": ");
  expect_refusal({"eval", "run"}, {"run/step-00000004/manifest.json: not JSON"});
  EXPECT_FALSE(fs::exists(path() / "out"));
}

TEST_F(RunFolderTest, FoldersThatCannotBeWrittenAreNamed) {
  fs::create_directory(path() / "closed");
  fs::permissions(path() / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"train", "run.yaml", "train.out=closed/run"}, "train.out: cannot create folder closed/run"},
      {{"train", "run.yaml", "train.out=closed"}, "train.out: cannot write into folder closed"},
      {{"plan", "run.yaml", "--graph", "closed/graph.txt"}, "cannot create closed/graph.txt.partial"},
      {{"convert", std::string(TESSERA_SOURCE_DIR) + "/tests/golden/llama", "closed/hf"},
       "cannot create folder closed/hf"},
      {{"data", "bpe", "--out", "closed/t", "--vocab-size", "257", "run.yaml"},
       "cannot create folder closed/t"},
  };
  for (const auto& [arguments, message] : cases) {
    const ProgramResult result = without_override(arguments);
    EXPECT_EQ(result.exit_code, 1) << result.text();
    EXPECT_NE(result.err.find(message), std::string::npos) << result.text();
    EXPECT_NE(result.err.find("Permission denied"), std::string::npos) << result.text();
    EXPECT_TRUE(fs::is_empty(path() / "closed")) << result.text();
    EXPECT_EQ(result.err.find("planned memory"), std::string::npos) << result.text();
  }
  expect_refusal({"train", "run.yaml", "train.out=run.yaml"},
                 {"train.out = run.yaml: found a file, expected a folder"});
}

TEST_F(RunFolderTest, AFullDiskIsSaidWithTheFile) {
  // The unfinished file is the device that is always full.
  const auto full = [&](const char* name) {
    fs::create_symlink("/dev/full", path() / (std::string(name) + ".partial"));
  };
  full("graph.txt");
  expect_refusal({"plan", "run.yaml", "--graph", "graph.txt"},
                 {"cannot write graph.txt.partial: No space left on device"});
  folder.write("text.txt", "some words and some more words\n");
  expect_success({"data", "bpe", "--out", "tokens", "--vocab-size", "258", "text.txt"});
  full("c.bin");
  expect_refusal({"data", "build", "--out", "c", "--tokenizer", "tokens", "text.txt"},
                 {"cannot write c.bin.partial: No space left on device"});
  full("ids");
  expect_refusal({"data", "tokenize", "--tokenizer", "tokens", "--in", "text.txt", "--out", "ids"},
                 {"cannot write ids.partial: No space left on device"});
  fs::create_directory(path() / "hf");
  full("hf/model.safetensors");
  expect_refusal({"convert", std::string(TESSERA_SOURCE_DIR) + "/tests/golden/llama", "hf"},
                 {"cannot write hf/model.safetensors.partial: No space left on device"});
  for (const char* name : {"graph.txt", "c.bin", "c.idx", "ids", "hf/model.safetensors", "hf/config.json"})
    EXPECT_FALSE(fs::exists(path() / name)) << name;
}

}  // namespace
}  // namespace tessera
