#include "tessera/base/atomic_file.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/output_files.h"
#include "tessera/graph/dump.h"
#include "tessera/metrics/human.h"
#include "tessera/pipeline/timeline.h"
#include "tessera/train/from_config.h"
#include "tessera/train/job_plan.h"
#include "tessera/train/run_tokenizer.h"
#include "tessera/train/shrink.h"

namespace tessera {
namespace {

// Of a trace's ranks, whose speed a plan cannot know.
constexpr double kSecondsPerFlop = 1e-14;

std::string human(std::int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

// One column per pipeline stage; the numbers are exact.
void print_row(const JobPlan& job, std::string_view what,
               const std::function<std::int64_t(const StagePlan&)>& number) {
  fmt::print("  {:<24}", what);
  for (const StagePlan& stage : job.stages) fmt::print("{:>18}", number(stage));
  if (job.stages.size() == 1) fmt::print("  {:>9}", human(number(job.stages[0])));
  fmt::print("\n");
}

void print_memory(const JobPlan& job) {
  fmt::print("memory of {}, exactly{}:\n", job.layout.mesh.num_ranks() > 1 ? "a rank" : "the training step",
             job.stages.size() > 1 ? ", by pipeline stage" : "");
  const auto row = [&](const char* what, std::int64_t MemoryReport::*field) {
    print_row(job, what, [=](const StagePlan& stage) { return stage.memory.*field; });
  };
  row("weights", &MemoryReport::weights);
  row("gradients", &MemoryReport::gradients);
  row("optimizer state", &MemoryReport::optimizer_state);
  row("activations kept", &MemoryReport::activations_kept);
  row("temporaries", &MemoryReport::temporaries);
  row("logits", &MemoryReport::logits);
  row("constants, alignment", &MemoryReport::constants);
  row("total", &MemoryReport::total);
  if (job.stages.size() > 1)
    print_row(job, "messages, GPU to GPU", [](const StagePlan& stage) { return stage.message_bytes; });
}

// A card's name is about its memory in GiB, and up to 1.2 too high: an H200, of 141, gives out 139.8. The
// driver, its libraries and their kernels take 0.7 GB of that. Messages take theirs beside the arena, too, in
// a pipeline whose ranks are threads of one process.
void print_fit(const JobPlan& job) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30, kBesideThePlan = 2 * kGiB;
  std::int64_t most = 0;
  for (const StagePlan& stage : job.stages) most = std::max(most, stage.memory.total + stage.message_bytes);
  fmt::print("a rank of {} fits a device of", human(most));
  for (const std::int64_t size : {16, 80, 141}) {
    fmt::print("{} {} GiB: {}", size > 16 ? "," : "", size,
               most <= size * kGiB - kBesideThePlan ? "yes" : "no");
  }
  fmt::print("\n");
}

void print_pipeline(const JobPlan& job) {
  if (job.schedule.num_stages == 1) return;
  fmt::print("  {:<24}", "layers");
  for (const StagePlan& stage : job.stages) fmt::print("{:>18}", stage.layers.size());
  fmt::print("\n  {:<24}", "micro-batches in flight");
  for (int peak : job.proof.peak_in_flight) fmt::print("{:>18}", peak);
  fmt::print("\npipeline: {}, {} ranks of {} stages, {} micro-batches, bubble {:.2f} % by flops\n",
             schedule_name(job.schedule.kind), job.schedule.num_stages, job.schedule.num_chunks,
             job.schedule.num_micro_batches, 100 * job.timing.bubble_fraction());
  fmt::print("  proved: every send has its receive, in an order that cannot deadlock\n");
}

void print_traffic_totals(const JobPlan& job) {
  if (job.layout.mesh.num_ranks() == 1) return;
  fmt::print("bytes that a rank sends per step, at the least:\n");
  for (int g = 0; g < kNumGroups; ++g) {
    const auto group = static_cast<Group>(g);
    bool any = false;
    for (const StagePlan& stage : job.stages) any |= bytes_sent(stage.traffic, group) > 0;
    if (any)
      print_row(job, group_name(group), [=](const StagePlan& s) { return bytes_sent(s.traffic, group); });
  }
}

void print_flops(const RunConfig& config, const Model& model, const JobPlan& job) {
  const auto tokens = static_cast<double>(config.train.global_batch * config.train.seq_len);
  double most = 0;
  for (const StagePlan& stage : job.stages) {
    const MemoryReport& m = stage.memory;
    most = std::max(most,
                    static_cast<double>(job.layout.num_micro_batches) * (m.forward_flops + m.backward_flops) +
                        m.update_flops);
  }
  const auto useful =
      static_cast<double>(config.train.global_batch) * training_flops(model, {1, config.train.seq_len});
  fmt::print("one step: {} tokens in {} micro-batches\n", human_count(tokens), job.layout.num_micro_batches);
  fmt::print("  {:<24}{:>18.0f}  {:>9}\n", job.layout.mesh.num_ranks() > 1 ? "flops, busiest rank" : "flops",
             most, human_count(most));
  fmt::print("  {:<24}{:>18.0f}  {:>9}\n", "the model's", useful, human_count(useful));
  fmt::print("  {:<24}{:>18}\n", "model flops per token", human_count(useful / tokens));
}

void print_collectives(const StagePlan& stage) {
  fmt::print("collectives of a step:\n  {:<8}{:<16}{:<9}{:>7}{:>14}{:>14}  {}\n", "group", "kind", "program",
             "count", "payload", "sent each", "of what, and why");
  for (const TrafficLine& line : stage.traffic) {
    fmt::print("  {:<8}{:<16}{:<9}{:>7}{:>14}{:>14}  {}: {}\n", group_name(line.group), line.kind,
               phase_name(line.phase), line.count, line.payload, line.sent, line.value, line.why);
  }
}

void print_biggest(const StagePlan& stage) {
  fmt::print("biggest tensors:\n");
  for (const BigTensor& tensor : biggest_tensors(stage.graph, stage.plan, 10)) {
    fmt::print("  {:<44} {:<22} {:>9}  {}\n", tensor.name, tensor.type.text(), human(tensor.type.num_bytes()),
               tensor.place);
  }
}

struct PlanArguments {
  std::string config, graph_file, dot_file, plan_file, trace_file;
  std::int64_t stage = 0;
  std::optional<std::int64_t> shrink;
  bool collectives = false, timeline = false;
  std::vector<std::string> overrides;
};

void print_head(const RunConfig& config, const JobPlan& job, const StagePlan& stage, const Device& device) {
  const Mesh& mesh = job.layout.mesh;
  fmt::print("{} parameters on {}, plan {:016x}\n", job.num_parameters, device.name(),
             plan_hash(stage.graph, stage.plan));
  if (config.device == DeviceName::cuda && device.name() != "cuda") {
    fmt::print(
        "device: cuda, but no GPU can be asked here: the {} device stands in. On a GPU kernels and libraries "
        "take scratch that is not counted below, for the logits up to 1 GiB, for products 32 MiB, and for "
        "attention\n",
        device.name());
  }
  if (mesh.num_ranks() > 1) {
    fmt::print("{} ranks: pp {} x dp {} x tp {}{}{}\n", mesh.num_ranks(), mesh.pp, mesh.dp, mesh.tp,
               job.layout.sequence ? ", sequence parallel" : "", job.layout.zero1 ? ", ZeRO-1" : "");
  }
  if (!job.folded.empty()) fmt::print("folded: {}\n", job.folded);
  fmt::print("programs: init {} steps, forward {}, backward {}, update {}\n",
             stage.plan.program(Phase::init).size(), stage.plan.program(Phase::forward).size(),
             stage.plan.program(Phase::backward).size(), stage.plan.program(Phase::update).size());
}

void check_plan_outputs(const PlanArguments& arguments, const RunConfig& config) {
  std::vector<NamedFile> outputs;
  for (const auto& [name, path] : {std::pair{"--graph", arguments.graph_file},
                                   {"--dot", arguments.dot_file},
                                   {"--steps", arguments.plan_file},
                                   {"--trace", arguments.trace_file}}) {
    if (!path.empty()) outputs.push_back({name, path});
  }
  std::vector<NamedFile> inputs{{"CONFIG", arguments.config}};
  if (const std::filesystem::path model = config.model.config; !model.empty())
    inputs.push_back({"model.config", is_directory(model) ? model / "config.json" : model});
  check_outputs(inputs, outputs);
}

void print_plan(const PlanArguments& arguments) {
  const auto say = [](const std::string& line) { fmt::print("{}\n", line); };
  const RunConfig config = load_shrunk_config(arguments.config, arguments.overrides, arguments.shrink, say);
  check_plan_outputs(arguments, config);
  // Tokenizers lie on the machines that train: where the config has the vocabulary's size, a plan opens none.
  const bool sized = config.model.architecture.vocab_size > 0;
  const std::unique_ptr<Model> model = make_model(config, sized ? 0 : tokenizer_vocab_size(config.data));
  const std::unique_ptr<Device> device = make_planning_device(config);
  const JobPlan job = plan_job(*model, training_graph_options(config), layout_of(config), *device);
  const auto num_stages = static_cast<std::int64_t>(job.stages.size());
  TS_CHECK(arguments.stage >= 0 && arguments.stage < num_stages, "--stage: found {}, expected 0 to {}",
           arguments.stage, num_stages - 1);
  const StagePlan& stage = job.stages[static_cast<std::size_t>(arguments.stage)];
  print_head(config, job, stage, *device);
  print_memory(job);
  print_fit(job);
  print_pipeline(job);
  print_traffic_totals(job);
  print_flops(config, *model, job);
  print_biggest(stage);
  if (arguments.collectives) print_collectives(stage);
  if (arguments.timeline) fmt::print("{}", timeline_text(job.schedule, job.timing));
  if (!arguments.graph_file.empty()) write_file(arguments.graph_file, dump_text(stage.graph));
  if (!arguments.dot_file.empty()) write_file(arguments.dot_file, dump_dot(stage.graph));
  if (!arguments.plan_file.empty()) write_file(arguments.plan_file, dump_text(stage.graph, stage.plan));
  if (!arguments.trace_file.empty())
    write_file(arguments.trace_file, timeline_trace(job.schedule, job.timing, kSecondsPerFlop));
}

}  // namespace

int plan_command(int argc, const char* const* argv) {
  PlanArguments arguments;
  Options options(
      "tessera plan",
      "Compile the training step of CONFIG for every rank and print its memory, work and traffic; nothing is "
      "allocated or run.");
  options.positional("CONFIG", &arguments.config, "the run's YAML file");
  options.flag("--collectives", &arguments.collectives,
               "list every collective of a step, its bytes and why it is there");
  options.flag("--timeline", &arguments.timeline, "draw the pipeline's schedule");
  options.option(
      "--trace FILE", &arguments.trace_file,
      "write the schedule for chrome://tracing, with times of ranks that compute 100 TFLOP/s each");
  options.option("--stage N", &arguments.stage, "which pipeline stage the lists and files are of");
  options.option("--shrink RANKS", &arguments.shrink,
                 "plan CONFIG made small, on so many ranks, as `tessera train --shrink` would run it");
  options.option("--graph FILE", &arguments.graph_file, "write the graph, a line per node");
  options.option("--dot FILE", &arguments.dot_file, "write the graph for Graphviz");
  options.option("--steps FILE", &arguments.plan_file,
                 "write the programs, a line per step with its place in memory");
  options.rest("key=value", &arguments.overrides, "change keys of CONFIG, e.g. device=null parallel.tp=8");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  print_plan(arguments);
  return 0;
}

}  // namespace tessera
