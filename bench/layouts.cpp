// bench_layouts CONFIG STEPS [key=value ...]: what a layout costs, as one JSON line: compiling it, and whole
// training steps on random tokens with the share of their time that goes to collectives. On device=null it is
// compiled only, for every pipeline stage. bench/layouts runs it on many layouts; under mpirun it joins the
// ranks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "arguments.h"
#include "tessera/base/philox.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/metrics/process_memory.h"
#include "tessera/pipeline/schedule_check.h"
#include "tessera/runtime/make_executor.h"
#include "tessera/train/from_config.h"
#include "tessera/train/run_ranks.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

constexpr int kWarmupSteps = 1;
constexpr Op kCollectives[] = {Op::all_reduce,          Op::all_gather,     Op::reduce_scatter,
                               Op::shard_slice,         Op::keep_first,     Op::reduce_copies,
                               Op::reduce_scatter_flat, Op::all_gather_flat};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What run() takes, added to `total`.
template <class F>
auto timed(double& total, F&& run) {
  const double start = seconds_now();
  auto result = run();
  total += seconds_now() - start;
  return result;
}

struct CompileTimes {
  double build = 0;      // model, gradients, optimizer: the single-device graph
  double partition = 0;  // placements and collectives
  double cut = 0;        // into pipeline stages
  double plan = 0;       // programs and memory
  double schedule = 0;   // the pipeline's lists and their proof
  int num_nodes = 0;     // of the single-device graph
};

// The graph of pipeline ranks [0, last_rank]: what differs between ranks.
CompileTimes compile_layout(const RunConfig& config, const Model& model, const Device& device,
                            int last_rank) {
  CompileTimes times;
  TrainingGraphOptions options = training_graph_options(config);
  options.shape.batch *= config.parallel.dp;
  const BuiltGraph built = timed(times.build, [&] { return build_training_graph(model, options); });
  times.num_nodes = static_cast<int>(built.graph.nodes().size());
  const Layout layout = resolved(layout_of(config), built.graph.num_layers());
  PartitionOptions cut{.mesh = layout.mesh, .sequence = layout.sequence, .zero1 = layout.zero1};
  cut.bucket_bytes = layout.bucket_bytes;
  cut.stage_of_layer = stages_of_layers(built.graph, layout);
  const Partitioned all = timed(times.partition, [&] { return partition(built.graph, cut); });
  const Schedule schedule = timed(times.schedule, [&] {
    Schedule s = make_schedule(layout.schedule, layout.mesh.pp, layout.chunks, layout.num_micro_batches);
    check_schedule(s);
    return s;
  });
  for (int rank = 0; rank <= last_rank; ++rank) {
    const PlanOptions slots{.num_slots = schedule.slots_needed[static_cast<std::size_t>(rank)]};
    const Graph mine = timed(times.cut, [&] {
      return layout.mesh.pp == 1
                 ? all.graph
                 : cut_stages(all.graph, cut.stage_of_layer, layout.mesh.pp, layout.chunks, rank).graph;
    });
    timed(times.plan, [&] { return plan_on(device, mine, slots); });
  }
  return times;
}

std::vector<std::int32_t> random_tokens(std::size_t count, std::int64_t vocab, std::uint64_t stream) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<std::int32_t>(philox(1, i, stream)[0] % static_cast<std::uint64_t>(vocab));
  }
  return ids;
}

struct StepTimes {
  double median = 0, best = 0;  // seconds of a step
  double collectives = 0;       // of a step's time on the average rank, waiting for the others included
  double other_ops = 0;         // likewise; the rest is the pipeline's waiting
  double loss = 0;
};

// One rank's part. The sums over the ranks are the same on all.
StepTimes run_steps(const RunConfig& config, const Model& model, int steps, Communicator* world) {
  const std::unique_ptr<Device> device = make_computing_device(config);
  TrainingStep step(model, training_graph_options(config), layout_of(config), 0, *device, world);
  initialize_weights(step.weights(), step.parameters(), 1);
  const auto tokens = static_cast<std::size_t>(config.train.global_batch * config.train.seq_len);
  const auto ids = random_tokens(tokens, model.vocab_size(), 1),
             targets = random_tokens(tokens, model.vocab_size(), 2);
  StepTimes result;
  OpTimes times;
  std::vector<double> seconds;
  for (int s = 0; s < kWarmupSteps + steps; ++s) {
    if (world) world->barrier();
    const double start = seconds_now();
    result.loss = step.run(ids, targets, s, config.optimizer.lr, s >= kWarmupSteps ? &times : nullptr).loss;
    if (world) world->barrier();
    if (s >= kWarmupSteps) seconds.push_back(seconds_now() - start);
  }
  double sums[3] = {0, 0, 0};  // collectives, all ops, wall
  for (Op op : kCollectives) sums[0] += times.seconds[static_cast<std::size_t>(op)];
  for (double s : times.seconds) sums[1] += s;
  for (double s : seconds) sums[2] += s;
  if (world) world->all_reduce(sums, 3, DType::f64, Reduction::sum);
  result.collectives = sums[0] / sums[2];
  result.other_ops = (sums[1] - sums[0]) / sums[2];
  std::sort(seconds.begin(), seconds.end());
  result.best = seconds.front();
  result.median = seconds[seconds.size() / 2];
  return result;
}

void print_compile(const RunConfig& config, const CompileTimes& t) {
  const ParallelKeys& p = config.parallel;
  std::printf(
      "{\"ranks\": %lld, \"nodes\": %d, \"build_ms\": %.2f, \"partition_ms\": %.2f, \"cut_ms\": %.2f, "
      "\"plan_ms\": %.2f, \"schedule_ms\": %.2f",
      static_cast<long long>(p.tp * p.pp * p.dp), t.num_nodes, 1e3 * t.build, 1e3 * t.partition, 1e3 * t.cut,
      1e3 * t.plan, 1e3 * t.schedule);
}

void print_steps(const RunConfig& config, const StepTimes& t) {
  const auto tokens = static_cast<double>(config.train.global_batch * config.train.seq_len);
  std::printf(
      ", \"step_s\": %.5f, \"min_s\": %.5f, \"tokens_per_s\": %.1f, \"collectives\": %.4f, \"other_ops\": "
      "%.4f, "
      "\"peak_rss_mb\": %.1f, \"loss\": %.5f",
      t.median, t.best, tokens / t.median, t.collectives, t.other_ops,
      static_cast<double>(process_memory().peak_resident_bytes) / 1e6, t.loss);
}

int run(int argc, char** argv) {
  const char* const usage = "bench_layouts CONFIG STEPS [key=value ...]";
  if (argc < 3 || argv[1][0] == '-') bench::refuse_arguments(usage);
  const int num_steps = bench::positive_argument(argc, argv, 2, 0, usage);
  const std::vector<std::string> overrides(argv + 3, argv + argc);
  const RunConfig config = load_run_config(argv[1], overrides);
  const std::unique_ptr<Model> model = make_model(config, 0);
  const std::unique_ptr<Device> device = make_device(config);
  if (config.device == DeviceName::null) {
    print_compile(config, compile_layout(config, *model, *device, static_cast<int>(config.parallel.pp) - 1));
    std::puts("}");
    return 0;
  }
  run_ranks(config, launched_by_mpi(std::getenv), [&](Communicator* world) {
    const bool speaks = world == nullptr || world->rank() == 0;
    CompileTimes compiled;  // by one rank while the others wait
    if (speaks) compiled = compile_layout(config, *model, *device, 0);
    if (world) world->barrier();
    const StepTimes steps = run_steps(config, *model, num_steps, world);
    if (!speaks) return;
    print_compile(config, compiled);
    print_steps(config, steps);
    std::puts("}");
  });
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_layouts: %s\n", e.what());
    return 1;
  }
}
