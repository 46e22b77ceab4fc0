#include "tessera/metrics/metric_tags.h"

#include <gtest/gtest.h>

#include <map>

namespace tessera {
namespace {

StepReport sample_with_throughput() {
  StepReport report{120, 2000, 4.23124, 3e-4, 1.234, 45100, 0.61, 512'000'000, 72, 960, {}};
  report.sequences_per_second = 44.04;
  report.peak_sequences_per_second = 50;
  return report;
}

std::map<std::string, double> scalars(const StepReport& report, MetricTags tags) {
  std::map<std::string, double> values;
  for (const TaggedScalar& scalar : tagged_scalars(report, tags)) {
    EXPECT_TRUE(values.emplace(scalar.tag, scalar.value).second) << scalar.tag;
  }
  return values;
}

TEST(MetricTags, AreThoseOfTheTwoStacks) {
  StepReport report = sample_with_throughput();
  EXPECT_EQ(
      scalars(report, MetricTags::nxd),
      (std::map<std::string, double>{
          {"step loss", 4.23124}, {"learning rate", 3e-4}, {"throughput", 44.04}, {"grad-norm", 1.234}}));
  std::map<std::string, double> nemo{
      {"reduced_train_loss", 4.23124}, {"lr", 3e-4},          {"gradient_norm", 1.234}, {"global_step", 120},
      {"consumed_samples", 960},       {"throughput", 44.04}, {"throughput_peak", 50}};
  EXPECT_EQ(scalars(report, MetricTags::nemo), nemo);
  report.parameter_norm = 17.5;
  report.eval_loss = 4.5;
  nemo["parameter_norm"] = 17.5;
  nemo["val_loss"] = 4.5;
  EXPECT_EQ(scalars(report, MetricTags::nemo), nemo);
  EXPECT_EQ(scalars(report, MetricTags::nxd).at("validation loss"), 4.5);
}

TEST(MetricTags, LineForPeople) {
  StepReport report = sample_with_throughput();
  EXPECT_EQ(step_line(report, MetricTags::nxd),
            "step 120/2000  loss 4.2312  lr 3.0e-04  grad 1.23  44.0 seq/s  45.1k tok/s  61% peak  512 MB  "
            "1m12s left");
  report.eval_loss = 4.5;
  report.peak_share = 0;
  EXPECT_EQ(
      step_line(report, MetricTags::nxd),
      "step 120/2000  loss 4.2312  eval 4.5000  lr 3.0e-04  grad 1.23  44.0 seq/s  45.1k tok/s  512 MB  "
      "1m12s left");
  EXPECT_EQ(step_status(report, MetricTags::nemo),
            "reduced_train_loss 4.2312  global_step 120  consumed_samples 960  val_loss 4.5000  lr 3.0e-04  "
            "grad 1.23  44.0 seq/s  45.1k tok/s  512 MB");
}

}  // namespace
}  // namespace tessera
