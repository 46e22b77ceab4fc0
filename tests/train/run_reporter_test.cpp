// What the reporter leaves behind of whole runs, and what stops them.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "train/tiny_run.h"

namespace tessera {
namespace {

TEST(RunResults, AreOfTheWholeRunAlsoAfterAResume) {
  TinyRun run;
  run.config.train.steps = 5;
  run.train_into("run");
  run.config.train.steps = 12;
  run.train_into("run", true);
  const auto results = nlohmann::json::parse(bytes_of(run.path() / "run" / "results.json")).at("results");
  EXPECT_EQ(results.at("parameters").at("Model"), "llama");
  EXPECT_EQ(results.at("parameters").at("Optimizer"), "adamw");
  EXPECT_EQ(results.at("parameters").at("Data type"), "fp32");
  EXPECT_EQ(results.at("parameters").at("Model configuration").at("hidden_size"), 32);
  EXPECT_EQ(results.at("parameters").at("Gradient accumulation microsteps"), 2);
  double seconds = 0, peak = 0;
  for (const StepReport& report : run.reports("run")) {
    seconds += report.step_seconds;
    peak = std::max(peak, report.sequences_per_second);
  }
  std::map<std::string, double> values;
  for (const auto& metric : results.at("metrics"))
    values[metric.at("MetricName")] = metric.at("MeasuredValue");
  EXPECT_EQ(values.at("Final loss"), run.losses("run").back());
  EXPECT_DOUBLE_EQ(values.at("Time to train"), seconds / 60);
  EXPECT_DOUBLE_EQ(values.at("Peak throughput"), peak);
  EXPECT_EQ(run.reports("run").back().peak_sequences_per_second, peak);
}

TEST(RunGoldenLosses, ARunThatStraysEndsAtTheStep) {
  TinyRun run;
  run.train_into("golden");
  std::vector<double> losses = run.losses("golden");
  const auto with_golden = [&](const std::string& name) {
    std::string text;
    for (const double loss : losses) text += fmt::format("{:.6f}\n", loss);
    std::ofstream(run.path() / "golden_steploss.txt") << text;
    run.config.metrics.golden_losses = (run.path() / "golden_steploss.txt").string();
    run.train_on_ranks(name);
  };
  run.config.metrics.golden_tolerance = 1e-4;
  with_golden("same");
  EXPECT_EQ(run.reports("same").size(), 12u);
  losses[6] *= 1.01;
  expect_error([&] { with_golden("strays"); }, {"step 7: loss", "0.0001 times the golden loss"});
  EXPECT_EQ(run.reports("strays").size(), 7u) << "the step that strays is in the log";
  run.config.parallel.tp = 2;  // every rank stops
  expect_error([&] { with_golden("strays on two ranks"); }, {"step 7: loss"});
  run.config.metrics.golden_tolerance = 0.02;
  with_golden("wider");
}

}  // namespace
}  // namespace tessera
