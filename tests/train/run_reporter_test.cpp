// What the reporter says and leaves behind of whole runs, and what stops them.
#include "tessera/train/run_reporter.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "runtime/proxy_device.h"
#include "tessera/base/created_folder.h"
#include "tessera/train/from_config.h"
#include "train/tiny_run.h"

namespace tessera {
namespace {

// The CPU with memory that it counts, as a driver does: also what others use, and what its kernels take.
class CountingDevice final : public ProxyDevice {
 public:
  static constexpr std::int64_t kOthers = 570'000'000, kKernels = 100'000'000;

  std::unique_ptr<DeviceMemory> allocate(std::int64_t num_bytes) override {
    allocated += num_bytes;
    return ProxyDevice::allocate(num_bytes);
  }
  std::int64_t used_bytes() const override { return kOthers + allocated + (allocated > 0 ? kKernels : 0); }

  std::int64_t allocated = 0;
};

// Of `eval_batch` sequences at a time; 0: without evaluation. Returns the line and the bytes of the arenas.
std::pair<std::string, std::int64_t> memory_taken_with(std::int64_t eval_batch) {
  TinyRun run;
  run.config.model.architecture.ffn_size = 4096;
  CountingDevice device;
  const std::unique_ptr<Model> model = make_model(run.config, 0);
  const std::int64_t before = device.used_bytes();
  TrainingStep step(*model, training_graph_options(run.config), layout_of(run.config), 1, device);
  std::optional<Evaluator> evaluator;
  if (eval_batch > 0) {
    const BatchShape shape{eval_batch, run.config.train.seq_len};
    evaluator.emplace(*model, shape, DType::f32, device, step);
  }
  return {memory_taken_line(step, evaluator ? &*evaluator : nullptr, before), device.allocated};
}

TEST(MemoryTaken, IsThePlansAndWhatTheDeviceTakesBeside) {
  const std::int64_t training = memory_taken_with(0).second;
  EXPECT_GT(training, 10'000'000);
  // In training's scratch, and in scratch of its own.
  for (const auto& [eval_batch, least] : {std::pair{0, 0}, {2, 0}, {128, 5'000'000}}) {
    const auto [line, allocated] = memory_taken_with(eval_batch);
    EXPECT_GE(allocated - training, least) << eval_batch;
    const double mb = static_cast<double>(allocated) / 1e6;
    EXPECT_EQ(line,
              fmt::format("GPU memory: {:.0f} MB planned, {:.0f} MB taken from the driver, kernels' code "
                          "included (570 MB were in use before)",
                          mb, mb + 100));
  }
}

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

TEST(RunReports, ShareOfThePeakAndTimeLeftAreOfTheSpeedThatIsSaid) {
  TinyRun run;
  run.config.train.out = (run.path() / "run").string();
  create_folder(run.config.train.out, "train.out");
  const std::unique_ptr<Model> model = make_model(run.config, 0);
  const std::unique_ptr<Device> device = make_device(run.config);
  const double flops = training_flops(*model, {1, run.config.train.seq_len});
  const TrainCallbacks callbacks;
  RunReporter reporter(run.config, *model, *device, callbacks, RunStart{100, 0, /*peak_flops=*/40 * flops});
  for (std::int64_t steps_done = 1; steps_done <= run.config.train.steps; ++steps_done) {
    const StepReport r = reporter.report({steps_done, {}, 0.0, /*seconds=*/0.5});
    EXPECT_DOUBLE_EQ(r.sequences_per_second, 2.0 * static_cast<double>(run.config.train.global_batch));
    EXPECT_DOUBLE_EQ(r.tokens_per_second, 16 * r.sequences_per_second);
    EXPECT_DOUBLE_EQ(r.peak_share, 0.2);  // 8 sequences a second where 40 could be
    EXPECT_DOUBLE_EQ(r.seconds_left, 0.5 * static_cast<double>(run.config.train.steps - steps_done));
  }
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
