#include "tessera/metrics/step_report.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/parse_json.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;
constexpr double kYear9999 = 253402300799;  // its last second: what a date has room for

double number_at(const Json& line, const char* name) {
  const auto field = line.find(name);
  TS_CHECK(field != line.end(), "found no \"{}\", expected a step's metrics", name);
  if (field->is_null()) return std::numeric_limits<double>::quiet_NaN();
  TS_CHECK(field->is_number(), "{}: found {}, expected a number", name, field->dump());
  return field->get<double>();
}

std::int64_t integer_at(const Json& line, const char* name) {
  const auto field = line.find(name);
  TS_CHECK(field != line.end(), "found no \"{}\", expected a step's metrics", name);
  TS_CHECK(field->is_number_integer(), "{}: found {}, expected an integer", name, field->dump());
  return field->get<std::int64_t>();
}

}  // namespace

std::string to_json_line(const StepReport& report) {
  Json line;
  line["step"] = report.step;
  line["total_steps"] = report.total_steps;
  line["loss"] = report.loss;
  if (report.eval_loss) line["eval_loss"] = *report.eval_loss;
  if (report.eval_perplexity) line["eval_perplexity"] = *report.eval_perplexity;
  if (report.parameter_norm) line["parameter_norm"] = *report.parameter_norm;
  line["learning_rate"] = report.learning_rate;
  line["grad_norm"] = report.grad_norm;
  line["tokens_per_second"] = report.tokens_per_second;
  line["peak_share"] = report.peak_share;
  line["memory_bytes"] = report.memory_bytes;
  line["seconds_left"] = report.seconds_left;
  line["consumed_samples"] = report.consumed_samples;
  line["step_seconds"] = report.step_seconds;
  line["sequences_per_second"] = report.sequences_per_second;
  line["peak_sequences_per_second"] = report.peak_sequences_per_second;
  line["wall_time"] = report.wall_time;
  return line.dump();
}

StepReport parse_json_line(std::string_view line) {
  Json json;
  try {
    json = parse_ordered_json(line);
  } catch (const Json::exception&) {  // half a line, say: it stays null
  }
  TS_CHECK(json.is_object(), "found no JSON object, expected a step's metrics");
  StepReport report;
  report.step = integer_at(json, "step");
  TS_CHECK(report.step >= 1 && report.step <= kMostSteps, "step: found {}, expected 1 to {}", report.step,
           kMostSteps);
  report.total_steps = integer_at(json, "total_steps");
  report.loss = number_at(json, "loss");
  if (json.contains("eval_loss")) report.eval_loss = number_at(json, "eval_loss");
  if (json.contains("eval_perplexity")) report.eval_perplexity = number_at(json, "eval_perplexity");
  if (json.contains("parameter_norm")) report.parameter_norm = number_at(json, "parameter_norm");
  report.learning_rate = number_at(json, "learning_rate");
  report.grad_norm = number_at(json, "grad_norm");
  report.tokens_per_second = number_at(json, "tokens_per_second");
  report.peak_share = number_at(json, "peak_share");
  report.memory_bytes = integer_at(json, "memory_bytes");
  report.seconds_left = number_at(json, "seconds_left");
  report.consumed_samples = integer_at(json, "consumed_samples");
  const auto later_field = [&](const char* name) {
    return json.contains(name) ? number_at(json, name) : 0.0;
  };
  report.step_seconds = later_field("step_seconds");
  report.sequences_per_second = later_field("sequences_per_second");
  report.peak_sequences_per_second = later_field("peak_sequences_per_second");
  report.wall_time = later_field("wall_time");
  TS_CHECK(report.wall_time >= 0 && report.wall_time <= kYear9999,
           "wall_time: found {}, expected seconds since 1970, before the year 10000", report.wall_time);
  return report;
}

}  // namespace tessera
