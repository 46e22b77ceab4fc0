#include "tessera/metrics/jsonl_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "checkpoint/temporary_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"

namespace tessera {
namespace {

class JsonlLogTest : public testing::Test {
 protected:
  // Steps first..last of a run whose losses are `offset` + step.
  void write_steps(std::int64_t resumed_step, std::int64_t last, double offset) const {
    JsonlLog log(path_, resumed_step);
    for (std::int64_t step = resumed_step + 1; step <= last; ++step) {
      StepReport report;
      report.step = step;
      report.loss = offset + static_cast<double>(step);
      log.append(report);
    }
  }

  void append_text(const std::string& text) const { std::ofstream(path_, std::ios::app) << text; }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "metrics.jsonl";
};

TEST_F(JsonlLogTest, EveryLineIsThereAsSoonAsItIsWritten) {
  JsonlLog log(path_, 0);
  for (std::int64_t step = 1; step <= 3; ++step) {
    StepReport report;
    report.step = step;
    log.append(report);
    EXPECT_EQ(read_jsonl_log(path_).size(), static_cast<std::size_t>(step));
  }
}

TEST_F(JsonlLogTest, ResumeKeepsEachStepOnce) {
  write_steps(0, 8, 0);
  write_steps(5, 7, 100);
  const std::vector<StepReport> reports = read_jsonl_log(path_);
  ASSERT_EQ(reports.size(), 7u);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const auto step = static_cast<double>(i + 1);
    EXPECT_EQ(reports[i].step, static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(reports[i].loss, i < 5 ? step : 100 + step);
  }
}

TEST_F(JsonlLogTest, FreshRunStartsAnew) {
  write_steps(0, 8, 0);
  write_steps(0, 2, 100);
  EXPECT_EQ(read_jsonl_log(path_).size(), 2u);
}

TEST_F(JsonlLogTest, ResumeDropsALineThatWasCutOff) {
  write_steps(0, 3, 0);
  append_text("{\"step\":4,\"lo");
  EXPECT_EQ(read_jsonl_log(path_).size(), 3u);
  write_steps(3, 4, 0);
  EXPECT_EQ(read_jsonl_log(path_).size(), 4u);
}

TEST_F(JsonlLogTest, ForeignLinesAreRefusedWithTheirNumber) {
  write_steps(0, 2, 0);
  append_text("hello\n");
  const std::string before = read_file(path_);
  try {
    JsonlLog log(path_, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path_.string() + ":3: found no JSON object, expected a step's metrics");
  }
  EXPECT_EQ(read_file(path_), before);
}

TEST_F(JsonlLogTest, MissingFileHasNoLines) {
  EXPECT_TRUE(read_jsonl_log(folder_.path() / "absent.jsonl").empty());
  EXPECT_THROW(JsonlLog(folder_.path() / "absent" / "metrics.jsonl", 0), Error);
}

TEST_F(JsonlLogTest, FailedWriteNamesTheFile) {
  JsonlLog log(path_, 0);
  log.append({});
  // A limit on file sizes stands in for the full disk.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{std::filesystem::file_size(path_), before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  std::string message;
  try {
    log.append({});
  } catch (const Error& error) {
    message = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "cannot write " + path_.string() + ": File too large");
}

}  // namespace
}  // namespace tessera
