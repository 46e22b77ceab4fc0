#include "tessera/metrics/results_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

std::vector<StepReport> thirty_steps() {
  std::vector<StepReport> reports(30);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].step = static_cast<std::int64_t>(i) + 1;
    reports[i].loss = 5 - 0.1 * static_cast<double>(i);
    reports[i].step_seconds = i < 10 ? 10 : 2;  // the first ten are slow
    reports[i].sequences_per_second = i < 10 ? 1.6 : i == 20 ? 9 : 8;
    reports[i].wall_time = 1715934600.25 + static_cast<double>(i);
  }
  return reports;
}

ResultParameters parameters() {
  ResultParameters p;
  p.model = "bert";
  p.config_json = R"({"model_type": "bert", "hidden_size": 1024})";
  p.size = {.examples = 192,
            .batch_per_device = 2,
            .data_parallel = 4,
            .accumulation = 2,
            .steps = 30,
            .seq_len = 128};
  p.world_size = 32;
  p.seed = 12349;
  p.warmup_steps = 5;
  p.optimizer = "adamw";
  p.data_type = "bf16";
  p.dataset = "wiki";
  return p;
}

TEST(ResultsJson, HasTheShapeThatScriptsRead) {
  const auto results = nlohmann::json::parse(results_json(parameters(), thirty_steps())).at("results");
  const auto wanted = nlohmann::json::parse(R"({
    "Model": "bert", "Model configuration": {"model_type": "bert", "hidden_size": 1024}, "World size": 32,
    "Data parallel degree": 4, "Batch size": 2, "Total steps": 30, "Seed": 12349, "Optimizer": "adamw",
    "Data type": "bf16", "Gradient accumulation microsteps": 2, "Warmup steps": 5, "Dataset": "wiki",
    "Environment variables": {}, "Sequence length": 128})");
  EXPECT_EQ(results.at("parameters"), wanted);

  // An epoch is 192 examples in batches of 16: 12 steps, so two ended.
  std::vector<std::string> names;
  for (const auto& metric : results.at("metrics")) names.push_back(metric.at("MetricName"));
  EXPECT_EQ(names, (std::vector<std::string>{"Loss", "Throughput", "Loss", "Throughput", "Final loss",
                                             "Time to train", "Average throughput", "Peak throughput"}));
  const auto& first = results.at("metrics")[0];
  EXPECT_EQ(first.at("MeasuredValue"), thirty_steps()[11].loss);
  EXPECT_EQ(first.at("Timestamp"), "2024-05-17T08:30:11.250000+00:00");
  EXPECT_EQ(first.at("AdditionalData"),
            nlohmann::json::parse(R"({"Epoch": 0, "Global step": 12, "Microstep": 24})"));
  const auto& last = results.at("metrics")[7];
  EXPECT_EQ(last.at("AdditionalData"),
            nlohmann::json::parse(R"({"Epoch": 2, "Global step": 30, "Microstep": 60})"));
}

TEST(ResultsJson, AveragesLeaveTheFirstTenStepsOut) {
  const auto metrics =
      nlohmann::json::parse(results_json(parameters(), thirty_steps())).at("results").at("metrics");
  EXPECT_NEAR(metrics[4].at("MeasuredValue"), 2.1, 1e-12);
  EXPECT_DOUBLE_EQ(metrics[5].at("MeasuredValue"), (10 * 10 + 20 * 2) / 60.0);
  EXPECT_EQ(metrics[5].at("Units"), "minutes");
  EXPECT_DOUBLE_EQ(metrics[6].at("MeasuredValue"), 8);
  EXPECT_EQ(metrics[6].at("Units"), "seq/s");
  EXPECT_DOUBLE_EQ(metrics[7].at("MeasuredValue"), 9);
}

TEST(ResultsJson, AShortRunCountsAllItsSteps) {
  const std::vector<StepReport> all = thirty_steps();
  const ThroughputSummary summary = summarize_throughput(std::span(all).first(4), 16);
  EXPECT_DOUBLE_EQ(summary.average, 1.6);
  EXPECT_DOUBLE_EQ(summary.seconds, 40);
}

}  // namespace
}  // namespace tessera
