// What people watch: the banner, the lines, the golden losses, `tessera report`.
#include <gtest/gtest.h>

#include "cli/program_test_folder.h"

namespace tessera {
namespace {

class ReportTest : public ProgramTestFolder {};

TEST_F(ReportTest, TheBannerSaysWhatARunWillDo) {
  const ProgramResult result = expect_success({"train", "run.yaml", "parallel.dp=2", "train.micro_batch=1"});
  for (const char* line :
       {"\n  examples                   186  of 16 tokens\n",
        "\n  epochs                       1  of 47 steps\n", "\n  batch per device             1\n",
        "\n  accumulation                 2\n",
        "\n  total batch                  4  = 1 per device x 2 accumulated x 2 data-parallel\n",
        "\n  steps                       12\n", " seq/s  ", " tok/s  ", "  grad "}) {
    EXPECT_NE(result.err.find(line), std::string::npos) << line << result.text();
  }
  EXPECT_NE(result.out.find("report      run/report.html"), std::string::npos) << result.text();
}

TEST_F(ReportTest, TheGpt3TagsNameTheLines) {
  const ProgramResult result = expect_success({"train", "run.yaml", "metrics.tags=nemo"});
  EXPECT_NE(result.err.find("global_step 12  consumed_samples 48"), std::string::npos) << result.text();
  EXPECT_NE(result.err.find("train 100%  reduced_train_loss "), std::string::npos) << result.text();
}

TEST_F(ReportTest, ARunThatStraysFromItsGoldenLossesFails) {
  folder.write("golden_steploss.txt", "4.1\n4.1\n4.1\n1.0\n");
  const ProgramResult result = expect_refusal(
      {"train", "run.yaml", "metrics.golden_losses=golden_steploss.txt", "optimizer.lr=0"},
      {"read 4 golden losses from golden_steploss.txt", "step 4: loss 4.", "0.23 times the golden loss 1 "});
  EXPECT_EQ(read_jsonl_log(path() / "run/metrics.jsonl").size(), 4u);
  const ProgramResult early =
      expect_refusal({"train", "run.yaml", "metrics.golden_losses=none.txt", "train.out=other"},
                     {"metrics.golden_losses: cannot open none.txt", "expected a file of losses"});
  EXPECT_EQ(early.err.find("planned memory"), std::string::npos) << early.text();
}

TEST_F(ReportTest, IsWrittenWhereItIsWanted) {
  expect_success({"train", "run.yaml"});
  const std::string page = bytes_of(path() / "run/report.html");
  std::filesystem::remove(path() / "run/report.html");
  EXPECT_EQ(expect_success({"report", "run"}).out, "report  run/report.html\n");
  EXPECT_EQ(bytes_of(path() / "run/report.html"), page);
  expect_success({"report", "run", "--out", "page.html"});
  EXPECT_EQ(bytes_of(path() / "page.html"), page);
}

TEST_F(ReportTest, BadInputIsRefusedInWords) {
  expect_refusal({"report", "none"}, {"none", "no such folder"});
  expect_refusal({"report", "."}, {"found no metrics.jsonl", "folder of a run"});
  expect_refusal({"report"}, {"RUN_DIR is missing"}, 2);
  expect_success({"train", "run.yaml"});
  expect_refusal({"report", "run", "--out", "no/such/folder/page.html"}, {"no/such/folder/page.html"});
}

}  // namespace
}  // namespace tessera
