// What a system refuses, or takes away while a program runs: threads, room for files, files themselves. The
// program says so and ends; it neither hangs nor ends without a word.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class LimitsTest : public ProgramTestFolder {
 protected:
  ProgramResult limited(const std::vector<std::string>& arguments,
                        const std::function<void()>& limits) const {
    return Program("tessera", arguments, path(), limits).wait();
  }
};

// A thread's stack is address space of its own.
TEST_F(LimitsTest, MoreThreadsThanThereMayBe) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"parallel.tp=2"}}) {
    std::vector<std::string> arguments = {"train", "run.yaml", "threads=4096"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = limited(arguments, [] { limit(RLIMIT_AS, rlim_t{2} << 30); });
    EXPECT_EQ(result.exit_code, 1) << result.text();
    EXPECT_NE(result.err.find("threads: could start "), std::string::npos) << result.text();
    EXPECT_NE(result.err.find(" of 4096: Resource temporarily unavailable"), std::string::npos)
        << result.text();
  }
}

// Nobody writes into them: a program that waited would be ended by its own clock.
TEST_F(LimitsTest, PipesAndDevicesAreNotRead) {
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n");
  folder.write("text.txt", "word word\n");
  for (const char* name : {"pipe", "pipe.model", "pipe.idx", "a_training_0.hdf5"})
    ASSERT_EQ(::mkfifo((path() / name).c_str(), 0600), 0);
  const std::vector<std::string> text = {"train", "run.yaml", "data.kind=text",
                                         "data.prefix=", "data.tokenizer=vocab.txt"};
  const auto of_text = [&](const std::string& file) {
    std::vector<std::string> arguments = text;
    arguments.push_back("data.texts=" + file);
    return arguments;
  };
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"train", "pipe"}, "pipe"},
      {{"train", "run.yaml", "data.prefix=pipe"}, "pipe.idx"},
      {{"data", "bpe", "--out", "t", "--vocab-size", "258", "pipe"}, "pipe"},
      {{"data", "tokenize", "--tokenizer", "vocab.txt", "--in", "pipe", "--out", "ids"}, "pipe"},
      {{"data", "tokenize", "--tokenizer", "pipe.model", "--in", "text.txt", "--out", "ids"}, "pipe.model"},
      {{"data", "build", "--tokenizer", "vocab.txt", "--out", "c", "pipe"}, "pipe"},
      {of_text("pipe"), "pipe"},
      {of_text("/dev/zero"), "/dev/zero"},
  };
  for (const auto& [arguments, file] : cases) {
    const ProgramResult result = limited(arguments, [] { ::alarm(20); });
    EXPECT_EQ(result.exit_code, 1) << result.text();
    EXPECT_NE(result.err.find("cannot read " + file + ": it is not a regular file"), std::string::npos)
        << result.text();
  }
  for (const char* name : {"t", "ids", "c.bin", "run"}) EXPECT_FALSE(fs::exists(path() / name)) << name;
}

TEST_F(LimitsTest, FilesThatMayNotGrowAreAFullDisk) {
  folder.write("text.txt", "word word\n");
  const ProgramResult result = limited({"data", "bpe", "--out", "t", "--vocab-size", "258", "text.txt"},
                                       [] { limit(RLIMIT_FSIZE, 1000); });
  EXPECT_EQ(result.exit_code, 1) << result.text();
  EXPECT_NE(result.err.find("cannot write t/vocab.json.partial: File too large"), std::string::npos)
      << result.text();
  EXPECT_FALSE(fs::exists(path() / "t"));
}

TEST_F(LimitsTest, ACorpusThatBecomesShorterIsSpokenOf) {
  Program program("tessera", {"train", "run.yaml", "train.steps=1000000", "train.eval_every=0"}, path());
  while (program.running() && bytes_of(path() / "run/metrics.jsonl").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ASSERT_TRUE(program.running());
  fs::resize_file(path() / "corpus.bin", 0);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGBUS) << result.text();
  EXPECT_NE(result.err.find("tessera: cannot read a file on: it has become shorter"), std::string::npos)
      << result.text();
}

// It writes until somebody stops it.
TEST_F(LimitsTest, AsManyTokensAsThereAreNumbers) {
  folder.write("text.txt", "word word and other words\n");
  expect_success({"data", "bpe", "--out", "tokens", "--vocab-size", "258", "text.txt"});
  expect_success({"train", "run.yaml", "data.tokenizer=tokens", "model.vocab_size=258"});
  const ProgramResult result = limited(
      {"generate", "run", "--temperature", "0", "--prompt", "word", "--tokens", "9223372036854775807"},
      [] { limit(RLIMIT_CPU, 2); });
  EXPECT_EQ(result.exit_code, 128 + SIGXCPU) << result.text().substr(0, 1000);
  EXPECT_GT(result.out.size(), 4u);
}

}  // namespace
}  // namespace tessera
