// bench_step CONFIG [steps] [key=value ...]: time and memory of whole training steps on random tokens, as one
// JSON line on stdout and a table of the time by op on stderr. bench/cpu_step and bench/gpu_step run it
// beside PyTorch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

#include "arguments.h"
#include "tessera/metrics/process_memory.h"
#include "tessera/plan/memory_report.h"
#include "tessera/train/from_config.h"
#include "tessera/train/random_batch.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

constexpr int kWarmupSteps = 3, kBreakdownSteps = 2;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// And how far the ops' sum is from a step that is not taken apart, which takes `step_seconds`.
void print_breakdown(const OpTimes& times, int steps, double step_seconds) {
  std::vector<int> order(kNumOps);
  for (int i = 0; i < kNumOps; ++i) order[static_cast<std::size_t>(i)] = i;
  const auto seconds = [&](int op) { return times.seconds[static_cast<std::size_t>(op)]; };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return seconds(a) > seconds(b); });
  double total = 0;
  for (int op : order) total += seconds(op);
  for (int op : order) {
    if (seconds(op) < 0.001 * total) continue;
    std::fprintf(stderr, "  %-28s %8.2f ms/step  %5.1f %%\n", op_name(static_cast<Op>(op)).data(),
                 1e3 * seconds(op) / steps, 100 * seconds(op) / total);
  }
  std::fprintf(stderr, "  %-28s %8.2f ms/step, %.1f %% of the step's %.2f\n", "all", 1e3 * total / steps,
               100 * total / steps / step_seconds, 1e3 * step_seconds);
}

int run(int argc, char** argv) {
  const char* const usage = "bench_step CONFIG [STEPS] [key=value ...]";
  if (argc < 2 || argv[1][0] == '-') bench::refuse_arguments(usage);
  const double begun = seconds_now();
  const int steps = bench::positive_argument(argc, argv, 2, 10, usage);
  const std::vector<std::string> overrides(argv + std::min(argc, 3), argv + argc);
  const RunConfig config = load_run_config(argv[1], overrides);
  const std::unique_ptr<Model> model = make_model(config, 0);
  const std::unique_ptr<Device> device = make_device(config);
  const std::int64_t before = device->used_bytes();
  TrainingStep step(*model, training_graph_options(config), layout_of(config), 0, *device);
  initialize_weights(step.weights(), step.parameters(), 1);
  const auto tokens = static_cast<std::size_t>(config.train.global_batch * config.train.seq_len);
  const RandomBatch batch(*model, step.inputs(), config.train.global_batch, config.train.seq_len);

  std::vector<double> seconds, peaks;
  OpTimes times;
  double first_loss = 0, last_loss = 0, first_step = 0;
  std::int64_t used_after_first = 0, used_at_end = 0;
  const int end = kWarmupSteps + steps;
  for (int s = 0; s < end + kBreakdownSteps; ++s) {
    if (s == 1) used_after_first = device->used_bytes();
    if (s == end) used_at_end = device->used_bytes();  // before the stopwatch takes what it needs
    const double start = seconds_now();
    last_loss = step.run(batch.inputs(), s, config.optimizer.lr, s >= end ? &times : nullptr).loss;
    if (s == 0) first_loss = last_loss, first_step = seconds_now() - begun;
    if (s < kWarmupSteps || s >= end) continue;
    seconds.push_back(seconds_now() - start);
    if (config.device == DeviceName::cpu) peaks.push_back(make_device(config)->peak_flops());
  }
  const double median = median_of(seconds);
  print_breakdown(times, kBreakdownSteps, median);
  for (const std::string& remark : device->remarks()) std::fprintf(stderr, "  %s\n", remark.c_str());
  // A device measures once, so each measurement is of a new one. A machine that is shared gives at times less
  // than its best: what it gave between the steps is the median.
  peaks.push_back(device->peak_flops());
  peaks.push_back(make_device(config)->peak_flops());
  const double peak = *std::max_element(peaks.begin(), peaks.end()), peak_between = median_of(peaks);
  const MemoryReport memory = report_memory(step.executor().graph(), step.executor().plan());
  const std::int64_t micro_batches = config.train.global_batch / config.train.micro_batch;
  const double flops = static_cast<double>(micro_batches) *
                       training_flops(*model, {config.train.micro_batch, config.train.seq_len});
  const auto mb = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::printf(
      "{\"program\": \"tessera\", \"device\": \"%s\", \"threads\": %lld, \"parameters\": %lld, "
      "\"tokens_per_step\": %zu, \"step_s\": %.5f, \"min_s\": %.5f, \"tokens_per_s\": %.1f, \"gflops\": "
      "%.1f, "
      "\"peak_gflops\": %.1f, \"peak_share\": %.3f, \"share_of_peak_between_steps\": %.3f, \"planned_mb\": "
      "%.1f, \"device_mb\": %.1f, "
      "\"device_mb_before\": %.1f, \"device_mb_first\": %.1f, \"peak_rss_mb\": %.1f, \"first_step_s\": %.2f, "
      "\"loss0\": %.4f, "
      "\"lossN\": %.4f}\n",
      std::string(device->name()).c_str(), static_cast<long long>(config.threads),
      static_cast<long long>(memory.num_parameters), tokens, median,
      *std::min_element(seconds.begin(), seconds.end()), static_cast<double>(tokens) / median,
      flops / median / 1e9, peak / 1e9, peak > 0 ? flops / median / peak : 0.0,
      peak_between > 0 ? flops / median / peak_between : 0.0, mb(memory.total), mb(used_at_end), mb(before),
      mb(used_after_first), mb(process_memory().peak_resident_bytes), first_step, first_loss, last_loss);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_step: %s\n", e.what());
    return 1;
  }
}
