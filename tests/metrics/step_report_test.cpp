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

// The names that other people's scripts read, in docs/metrics.md: a name that changes here changes theirs.
TEST(StepReport, KeysOfTheJsonLineAreThoseOfTheDocuments) {
  StepReport report = sample();
  report.eval_loss = report.eval_perplexity = report.parameter_norm = 1;
  std::vector<std::string> keys;
  const auto json = nlohmann::ordered_json::parse(to_json_line(report));
  for (const auto& field : json.items()) keys.push_back(field.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"step", "total_steps", "loss", "eval_loss", "eval_perplexity",
                                            "parameter_norm", "learning_rate", "grad_norm",
                                            "tokens_per_second", "peak_share", "memory_bytes", "seconds_left",
                                            "consumed_samples", "step_seconds", "sequences_per_second",
                                            "peak_sequences_per_second", "wall_time"}));
}

TEST(StepReport, JsonLineReadsBackToTheSameBits) {
  StepReport report = sample();
  report.loss = 1.0 / 3;
  report.eval_loss = std::nextafter(2.0, 3.0);
  report.parameter_norm = std::nextafter(20.0, 30.0);
  report.step_seconds = 0.1;
  report.sequences_per_second = 1.0 / 7;
  report.peak_sequences_per_second = 1.0 / 3;
  report.wall_time = 1715934600.123456;
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
  EXPECT_EQ(read.parameter_norm, report.parameter_norm);
  EXPECT_EQ(read.step_seconds, report.step_seconds);
  EXPECT_EQ(read.sequences_per_second, report.sequences_per_second);
  EXPECT_EQ(read.peak_sequences_per_second, report.peak_sequences_per_second);
  EXPECT_EQ(read.wall_time, report.wall_time);
}

TEST(StepReport, LinesOfOlderRunsAreRead) {
  const StepReport read = parse_json_line(
      R"({"step":3,"total_steps":9,"loss":4,"learning_rate":0.1,"grad_norm":1,"tokens_per_second":5,)"
      R"("peak_share":0,"memory_bytes":7,"seconds_left":1,"consumed_samples":12})");
  EXPECT_EQ(read.step, 3);
  EXPECT_EQ(read.sequences_per_second, 0);
  EXPECT_FALSE(read.parameter_norm.has_value());
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
  for (const char* step : {"0", "-9223372036854775808", "9007199254740993"})
    EXPECT_EQ(refusal(fmt::format("{{\"step\": {}}}", step).c_str()),
              fmt::format("step: found {}, expected 1 to 9007199254740992", step));
  StepReport late = sample();
  late.wall_time = 1e300;
  EXPECT_EQ(refusal(to_json_line(late).c_str()),
            "wall_time: found 1e+300, expected seconds since 1970, before the year 10000");
}

}  // namespace
}  // namespace tessera
