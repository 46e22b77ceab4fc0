// StepReport: the numbers of one training step, for people (one line) and for programs (one JSON line).
// Made by the training loop; shown by the progress bar, kept by JsonlLog, drawn by curve_svg.
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
  double grad_norm = 0;  // before clipping
  double tokens_per_second = 0;
  double peak_share = 0;  // of the machine's measured FMA peak, 0 to 1; 0: not measured
  std::int64_t memory_bytes = 0;
  double seconds_left = 0;
  std::int64_t consumed_samples = 0;
  std::optional<double> eval_loss;
  std::optional<double> eval_perplexity;  // of the tokens; the loss may have more in it
};

// "loss 4.2312  lr 3.0e-04  grad 1.23  45.1k tok/s  61% peak  512 MB": what a progress bar does not know.
std::string step_status(const StepReport& report);

// "step 120/2000  loss ..  1m12s left".
std::string step_line(const StepReport& report);

// One line without its newline. A loss that is not finite is written as null and read back as NaN,
// since JSON has no word for it.
std::string to_json_line(const StepReport& report);
StepReport parse_json_line(std::string_view line);  // throws Error saying what was expected

}  // namespace tessera
