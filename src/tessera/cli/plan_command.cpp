#include "tessera/base/atomic_file.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/graph/dump.h"
#include "tessera/metrics/human.h"
#include "tessera/plan/memory_report.h"
#include "tessera/train/from_config.h"
#include "tessera/train/run_data.h"

namespace tessera {
namespace {

void print_bytes(const char* what, std::int64_t bytes) {
  fmt::print("  {:<24}{:>18}  {:>9}\n", what, bytes, human_bytes(static_cast<double>(bytes)));
}

void print_memory(const MemoryReport& m) {
  fmt::print("memory of the training step, exactly:\n");
  print_bytes("weights", m.weights);
  print_bytes("gradients", m.gradients);
  print_bytes("optimizer state", m.optimizer_state);
  print_bytes("activations kept", m.activations_kept);
  print_bytes("temporaries", m.temporaries);
  print_bytes("logits", m.logits);
  print_bytes("constants and scalars", m.constants);
  print_bytes("total", m.total);
}

void print_flops(const RunConfig& config, const Model& model, const MemoryReport& m) {
  const std::int64_t micro_batches = config.train.global_batch / config.train.micro_batch;
  const auto tokens = static_cast<double>(config.train.global_batch * config.train.seq_len);
  const std::int64_t step = micro_batches * (m.forward_flops + m.backward_flops) + m.update_flops;
  const std::int64_t useful =
      micro_batches * training_flops(model, {config.train.micro_batch, config.train.seq_len});
  fmt::print("one step: {} tokens in {} micro-batches\n", human_count(tokens), micro_batches);
  fmt::print("  {:<24}{:>18}  {:>9}\n", "flops", step, human_count(static_cast<double>(step)));
  fmt::print("  {:<24}{:>18}  {:>9}\n", "of them the model's", useful,
             human_count(static_cast<double>(useful)));
  fmt::print("  {:<24}{:>18}\n", "model flops per token", human_count(static_cast<double>(useful) / tokens));
}

}  // namespace

int plan_command(int argc, const char* const* argv) {
  std::string path, graph_file, dot_file, plan_file;
  std::vector<std::string> overrides;
  Options options(
      "tessera plan",
      "Compile the training step of CONFIG and print its memory and work; nothing is allocated or run.");
  options.positional("CONFIG", &path, "the run's YAML file");
  options.option("--graph FILE", &graph_file, "write the graph, a line per node");
  options.option("--dot FILE", &dot_file, "write the graph for Graphviz");
  options.option("--steps FILE", &plan_file, "write the programs, a line per step with its place in memory");
  options.rest("key=value", &overrides, "change keys of CONFIG, e.g. device=null");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);

  const RunConfig config = load_run_config(path, overrides);
  const std::unique_ptr<Model> model = make_model(config, tokenizer_vocab_size(config));
  const std::unique_ptr<Device> device = make_device(config);
  const Graph graph = build_training_graph(*model, training_graph_options(config)).graph;
  const Plan plan = plan_on(*device, graph, {});
  const MemoryReport m = report_memory(graph, plan);

  fmt::print("{} parameters on {}, plan {:016x}\n", m.num_parameters, device->name(), plan_hash(graph, plan));
  fmt::print("programs: init {} steps, forward {}, backward {}, update {}\n",
             plan.program(Phase::init).size(), plan.program(Phase::forward).size(),
             plan.program(Phase::backward).size(), plan.program(Phase::update).size());
  print_memory(m);
  print_flops(config, *model, m);
  fmt::print("biggest tensors:\n");
  for (const BigTensor& tensor : biggest_tensors(graph, plan, 10)) {
    fmt::print("  {:<44} {:<22} {:>9}  {}\n", tensor.name, tensor.type.text(),
               human_bytes(static_cast<double>(tensor.type.num_bytes())), tensor.place);
  }
  if (!graph_file.empty()) write_file(graph_file, dump_text(graph));
  if (!dot_file.empty()) write_file(dot_file, dump_dot(graph));
  if (!plan_file.empty()) write_file(plan_file, dump_text(graph, plan));
  return 0;
}

}  // namespace tessera
