// StepReport: the numbers of one training step, and their JSON line.
// Made by the training loop; shown by the progress bar (metric_tags.h), kept by JsonlLog and EventFile, drawn
// by curve_svg.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

struct StepReport {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;          // before clipping
  double tokens_per_second = 0;  // of the last ten steps, as all speeds here
  double peak_share = 0;         // of the measured peak of all ranks' devices, 0 to 1; 0: not measured
  std::int64_t memory_bytes = 0;
  double seconds_left = 0;
  std::int64_t consumed_samples = 0;
  std::optional<double> eval_loss;
  std::optional<double> eval_perplexity;  // of the tokens; the loss may have more in it
  std::optional<double> parameter_norm;   // of the weights that gave this loss
  double step_seconds = 0;                // of this step alone
  double sequences_per_second = 0;
  double peak_sequences_per_second = 0;  // highest so far
  double wall_time = 0;                  // at the step's end: seconds since 1970
};

// One line without its newline. A loss that is not finite is written as null and read back as NaN,
// since JSON has no word for it. Speeds and times that an older line does not have are read as 0.
std::string to_json_line(const StepReport& report);
StepReport parse_json_line(std::string_view line);  // throws Error saying what was expected

}  // namespace tessera
