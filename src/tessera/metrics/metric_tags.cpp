#include "tessera/metrics/metric_tags.h"

#include <fmt/format.h>

#include "tessera/metrics/human.h"

namespace tessera {

std::vector<TaggedScalar> tagged_scalars(const StepReport& report, MetricTags tags) {
  std::vector<TaggedScalar> scalars;
  if (tags == MetricTags::nxd) {
    scalars = {{"step loss", report.loss},
               {"learning rate", report.learning_rate},
               {"throughput", report.sequences_per_second},
               {"grad-norm", report.grad_norm}};
    if (report.eval_loss) scalars.push_back({"validation loss", *report.eval_loss});
    return scalars;
  }
  scalars = {{"reduced_train_loss", report.loss},
             {"lr", report.learning_rate},
             {"gradient_norm", report.grad_norm},
             {"global_step", static_cast<double>(report.step)},
             {"consumed_samples", static_cast<double>(report.consumed_samples)},
             {"throughput", report.sequences_per_second},
             {"throughput_peak", report.peak_sequences_per_second}};
  if (report.parameter_norm) scalars.push_back({"parameter_norm", *report.parameter_norm});
  if (report.eval_loss) scalars.push_back({"val_loss", *report.eval_loss});
  return scalars;
}

std::string step_status(const StepReport& report, MetricTags tags) {
  const bool nemo = tags == MetricTags::nemo;
  std::string text = fmt::format("{} {:.4f}", nemo ? "reduced_train_loss" : "loss", report.loss);
  if (nemo)
    text += fmt::format("  global_step {}  consumed_samples {}", report.step, report.consumed_samples);
  if (report.eval_loss) text += fmt::format("  {} {:.4f}", nemo ? "val_loss" : "eval", *report.eval_loss);
  if (report.eval_perplexity) text += fmt::format("  perplexity {:.2f}", *report.eval_perplexity);
  text += fmt::format("  lr {:.1e}  grad {:.2f}  {:.{}f} seq/s  {} tok/s", report.learning_rate,
                      report.grad_norm, report.sequences_per_second,
                      report.sequences_per_second < 99.95 ? 1 : 0, human_count(report.tokens_per_second));
  if (report.peak_share > 0) text += fmt::format("  {:.0f}% peak", report.peak_share * 100);
  return text + "  " + human_bytes(static_cast<double>(report.memory_bytes));
}

std::string step_line(const StepReport& report, MetricTags tags) {
  return fmt::format("step {}/{}  {}  {} left", report.step, report.total_steps, step_status(report, tags),
                     human_duration(report.seconds_left));
}

}  // namespace tessera
