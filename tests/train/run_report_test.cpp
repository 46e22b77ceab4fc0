#include "tessera/train/run_report.h"

#include <gtest/gtest.h>

#include "tessera/base/mapped_file.h"
#include "train/tiny_run.h"

namespace tessera {
namespace {

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(RunReport, IsWrittenByTheRunAndHasEverything) {
  TinyRun run;
  run.config.parallel.pp = 2;
  run.config.parallel.dp = 2;
  run.config.train.micro_batch = 1;
  run.config.metrics.tags = MetricTags::nemo;
  run.train_on_ranks("run & <co>");
  const std::string page = read_file(run.path() / "run & <co>" / "report.html");
  EXPECT_EQ(page, run_report_html(run.path() / "run & <co>"));
  EXPECT_NE(page.find("<title>run &amp; &lt;co&gt;</title>"), std::string::npos);
  for (const char* part :
       {"finished: 12 of 12 steps", "validation loss", "average tokens/s", "peak tokens/s", ">Loss</text>",
        ">Learning rate</text>", ">Gradient norm</text>", ">Throughput</text>", ">Parameter norm</text>",
        "4 = pp 2 x dp 2 x tp 1", "4 = 1 x 2 accumulated x dp 2", "optimizer state", "stage 1",
        "1f1b, 2 ranks of 1 stage, 2 micro-batches", "timeline-forward", "global_batch: 4"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(count(page, "<svg"), 6u);
  EXPECT_EQ(count(page, "</svg>"), 6u);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(count(page, "http://www.w3.org/2000/svg"), count(page, "http")) << "only the name of SVG itself";
  EXPECT_NE(page.find(fmt::format("<b>{:.4f}</b>", run.losses("run & <co>").back())), std::string::npos);
}

TEST(RunReport, OfARunThatIsNotFinished) {
  TinyRun run;
  run.config.train.out = (run.path() / "run").string();
  int asked = 0;
  TrainCallbacks callbacks;
  callbacks.stop_requested = [&] { return ++asked == 8; };  // after step 7 and a batch of an evaluation
  train(run.config, false, callbacks);
  EXPECT_NE(run_report_html(run.path() / "run").find("not finished: 7 of 12 steps"), std::string::npos);
}

TEST(RunReport, BadFoldersAreRefused) {
  TinyRun run;
  run.train_into("run");
  const std::filesystem::path folder = run.path() / "run";
  expect_error([&] { run_report_html(run.path() / "none"); }, {"none", "no such folder"});
  expect_error([&] { run_report_html(run.path()); }, {"found no run.yaml", "the folder of a run"});

  const std::string metrics = bytes_of(folder / "metrics.jsonl");
  const auto with_metrics = [&](const std::string& text) {
    std::ofstream(folder / "metrics.jsonl", std::ios::binary) << text;
    return run_report_html(folder);
  };
  const std::size_t second = metrics.find('\n') + 1;
  expect_error([&] { with_metrics(metrics.substr(0, second + 20) + "\n" + metrics); },
               {"metrics.jsonl:2", "expected a step's metrics"});
  EXPECT_NE(with_metrics(metrics.substr(0, metrics.size() - 20)).find("was cut off"), std::string::npos);
  expect_error([&] { with_metrics(""); }, {"metrics.jsonl", "found no finished step"});
  std::filesystem::remove(folder / "metrics.jsonl");
  expect_error([&] { run_report_html(folder); }, {"found no metrics.jsonl"});
}

TEST(RunReport, ARunWithoutItsPlanHasItsCurves) {
  TinyRun run;
  run.train_into("run");
  std::filesystem::remove(run.path() / "run" / "plan.json");
  const std::string page = run_report_html(run.path() / "run");
  EXPECT_EQ(count(page, "<svg"), 4u);
  EXPECT_EQ(page.find("<h2>Memory"), std::string::npos);
}

}  // namespace
}  // namespace tessera
