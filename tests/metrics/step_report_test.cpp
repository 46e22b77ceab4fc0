#include "tessera/metrics/step_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera {
namespace {

StepReport sample() {
  return {120, 2000, 4.23124, 3e-4, 1.234, 45100, 0.61, 512'000'000, 72, 960, {}};
}

TEST(StepReport, LineForPeople) {
  EXPECT_EQ(step_line(sample()),
            "step 120/2000  loss 4.2312  lr 3.0e-04  grad 1.23  45.1k tok/s  61% peak  512 MB  1m12s left");
  StepReport report = sample();
  report.eval_loss = 4.5;
  report.peak_share = 0;
  EXPECT_EQ(
      step_line(report),
      "step 120/2000  loss 4.2312  eval 4.5000  lr 3.0e-04  grad 1.23  45.1k tok/s  512 MB  1m12s left");
}

TEST(StepReport, JsonLineIsOneObjectThatAnyReaderParses) {
  StepReport report = sample();
  report.eval_loss = 4.5;
  const std::string line = to_json_line(report);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("step"), 120);
  EXPECT_EQ(json.at("loss"), 4.23124);
  EXPECT_EQ(json.at("eval_loss"), 4.5);
  EXPECT_EQ(json.at("memory_bytes"), 512'000'000);
  EXPECT_EQ(json.at("consumed_samples"), 960);
  EXPECT_FALSE(nlohmann::json::parse(to_json_line(sample())).contains("eval_loss"));
}

TEST(StepReport, JsonLineReadsBackToTheSameBits) {
  StepReport report = sample();
  report.loss = 1.0 / 3;
  report.eval_loss = std::nextafter(2.0, 3.0);
  const StepReport read = parse_json_line(to_json_line(report));
  EXPECT_EQ(read.step, report.step);
  EXPECT_EQ(read.total_steps, report.total_steps);
  EXPECT_EQ(read.loss, report.loss);
  EXPECT_EQ(read.learning_rate, report.learning_rate);
  EXPECT_EQ(read.grad_norm, report.grad_norm);
  EXPECT_EQ(read.tokens_per_second, report.tokens_per_second);
  EXPECT_EQ(read.peak_share, report.peak_share);
  EXPECT_EQ(read.memory_bytes, report.memory_bytes);
  EXPECT_EQ(read.seconds_left, report.seconds_left);
  EXPECT_EQ(read.consumed_samples, report.consumed_samples);
  EXPECT_EQ(read.eval_loss, report.eval_loss);
}

TEST(StepReport, DivergedLossSurvivesTheRoundTrip) {
  StepReport report = sample();
  report.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(to_json_line(report).find("\"loss\":null"), std::string::npos);
  EXPECT_TRUE(std::isnan(parse_json_line(to_json_line(report)).loss));
}

TEST(StepReport, ForeignLinesAreRefused) {
  const auto refusal = [](const char* line) -> std::string {
    try {
      parse_json_line(line);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("not json"), "found no JSON object, expected a step's metrics");
  EXPECT_EQ(refusal("[1]"), "found no JSON object, expected a step's metrics");
  EXPECT_EQ(refusal("{}"), "found no \"step\", expected a step's metrics");
  EXPECT_EQ(refusal("{\"step\": 1.5}"), "step: found 1.5, expected an integer");
  EXPECT_EQ(refusal("{\"step\": 1, \"total_steps\": 2, \"loss\": \"x\"}"),
            "loss: found \"x\", expected a number");
}

}  // namespace
}  // namespace tessera
