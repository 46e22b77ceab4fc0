// Saves that fail or die in the middle, for real: a child process under a limit on the size of its files
// runs into it in write(2), which is where a full disk shows too.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/temporary_folder.h"
#include "tessera/base/mapped_file.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWeights = 100000;  // 400 kB; the other file and the manifest are larger
constexpr std::size_t kMoments = 200000;
constexpr std::size_t kConfigBytes = 2000000;

void save(const fs::path& run_dir, std::int64_t step) {
  std::vector<float> weights(kWeights, static_cast<float>(step));
  std::vector<float> moments(kMoments, static_cast<float>(-step));
  const std::vector<CheckpointFile> files = {
      {"1.weights", {{"w", {weights.data(), DType::f32, {kWeights}}}}},
      {"2.moments", {{"m", {moments.data(), DType::f32, {kMoments}}}}},
  };
  save_checkpoint(run_dir, {step, step, {{"config", std::string(kConfigBytes, 'x')}}}, files, 1);
}

void expect_whole(const fs::path& folder, std::int64_t step) {
  LoadedCheckpoint loaded(folder);
  EXPECT_EQ(loaded.info().step, step);
  EXPECT_EQ(loaded.info().properties.at("config").size(), kConfigBytes);
  std::vector<float> weights(kWeights), moments(kMoments);
  loaded.file("1.weights").read("w", {weights.data(), DType::f32, {kWeights}});
  loaded.file("2.moments").read("m", {moments.data(), DType::f32, {kMoments}});
  EXPECT_EQ(weights, std::vector<float>(kWeights, static_cast<float>(step)));
  EXPECT_EQ(moments, std::vector<float>(kMoments, static_cast<float>(-step)));
}

// Saves in a child whose files may not grow past file_limit_bytes. Past the limit the child gets
// SIGXFSZ: ignored, write() fails with EFBIG; by default, it dies on the spot. Returns the wait status;
// an Error's message goes to `message_file`, in a child that ends normally with 1.
int save_in_child(const fs::path& run_dir, std::int64_t step, rlim_t file_limit_bytes, bool ignore_signal,
                  const fs::path& message_file) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    const rlimit limit{file_limit_bytes, file_limit_bytes};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, ignore_signal ? SIG_IGN : SIG_DFL);
    try {
      save(run_dir, step);
    } catch (const Error& error) {
      std::ofstream(message_file) << error.what();
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

struct Interruption {
  rlim_t file_limit_bytes;
  const char* file;  // which one does not fit any more
};
// From the header of the first file to the last page of the manifest.
constexpr Interruption kInterruptions[] = {{512, "1.weights"},         {200000, "1.weights"},
                                           {500000, "2.moments"},      {800000, "2.moments"},
                                           {1000000, "manifest.json"}, {2000100, "manifest.json"}};

TEST(FullDisk, AFailedSaveLeavesThePreviousCheckpointAndNothingElse) {
  for (const auto& [limit, file] : kInterruptions) {
    SCOPED_TRACE(limit);
    const TemporaryFolder run, scratch;
    save(run.path(), 10);
    const int status = save_in_child(run.path(), 20, limit, true, scratch.path() / "message");
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 1);
    const std::string message = bytes_of(scratch.path() / "message");
    EXPECT_NE(message.find(file), std::string::npos) << message;
    EXPECT_NE(message.find("File too large"), std::string::npos) << message;
    EXPECT_EQ(names_in(run.path()), std::vector<std::string>{"step-00000010"});
    expect_whole(run.path() / "step-00000010", 10);
  }
}

TEST(FullDisk, AFailedSaveOfTheSameStepLeavesTheOldOne) {
  const TemporaryFolder run, scratch;
  save(run.path(), 10);
  const int status = save_in_child(run.path(), 10, 800000, true, scratch.path() / "message");
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(names_in(run.path()), std::vector<std::string>{"step-00000010"});
  expect_whole(run.path() / "step-00000010", 10);
}

TEST(FullDisk, ACrashLeavesThePreviousCheckpointAndTheNextSaveClearsUp) {
  for (const auto& [limit, file] : kInterruptions) {
    SCOPED_TRACE(limit);
    const TemporaryFolder run, scratch;
    save(run.path(), 10);
    const int status = save_in_child(run.path(), 20, limit, false, scratch.path() / "message");
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGXFSZ);
    EXPECT_EQ(names_in(run.path()), (std::vector<std::string>{"step-00000010", "step-00000020.partial"}));
    EXPECT_EQ(find_latest_checkpoint(run.path()), run.path() / "step-00000010");
    expect_whole(run.path() / "step-00000010", 10);

    save(run.path(), 30);
    EXPECT_EQ(names_in(run.path()), std::vector<std::string>{"step-00000030"});
    expect_whole(run.path() / "step-00000030", 30);
  }
}

}  // namespace
}  // namespace tessera
