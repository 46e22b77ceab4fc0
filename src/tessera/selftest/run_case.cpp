#include "tessera/selftest/run_case.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>

#include "tessera/base/float_halves.h"
#include "tessera/base/philox.h"
#include "tessera/base/usable_cores.h"
#include "tessera/comm/local/local_world.h"
#include "tessera/runtime/rank_groups.h"
#include "tessera/selftest/case_operands.h"
#include "tessera/selftest/compare_values.h"
#include "tessera/selftest/device_run.h"

namespace tessera {
namespace {

// The case's nodes alone in a graph. Its outputs are what is compared.
Graph graph_of(const OpCase& op_case) {
  Graph graph;
  std::vector<ValueId> operands;
  for (const CaseInput& input : all_inputs(op_case)) {
    operands.push_back(graph.add_input(fmt::format("in{}", operands.size()), input.type, Role::batch));
  }
  const auto next_operands = operands.begin() + std::ssize(op_case.inputs);
  std::vector<ValueId> compared =
      emit(graph, op_case.op, Phase::forward, "selftest", op_case.attrs, {operands.begin(), next_operands});
  if (const auto& next = op_case.next) {
    std::vector<ValueId> inputs(next_operands, operands.end());
    inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(next->reads_at), compared[0]);
    if (!next->shared) compared.erase(compared.begin());
    const std::vector<ValueId> last =
        emit(graph, next->op, Phase::forward, "selftest.next", next->attrs, std::move(inputs));
    compared.insert(compared.end(), last.begin(), last.end());
  }
  for (ValueId value : compared) graph.mark_output(graph.value(value).name, value);
  return graph;
}

Cost cost_of(const Graph& graph) {
  Cost sum;
  for (const Node& node : graph.nodes()) {
    const Cost cost = node_cost(graph, node);
    sum.flops += cost.flops;
    sum.bytes += cost.bytes;
  }
  return sum;
}

// Runs that take a fiftieth of a second together, at least three; ranks take as many as each other.
double seconds_per_run(DeviceRun& run, const RankGroups* ranks) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_of = [&](int times) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) {
      run.run();
      run.end_run();
    }
    run.wait();
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (ranks) ranks->world().all_reduce(&seconds, 1, DType::f64, Reduction::max);
    return seconds;
  };
  const double once = seconds_of(1);
  const int times = static_cast<int>(std::clamp(0.02 / std::max(once, 1e-6), 3.0, 200.0));
  return seconds_of(times) / times;
}

struct RankInputs {
  std::vector<Bytes> bytes;

  RankInputs(const OpCase& op_case, std::uint64_t seed, int rank) {
    // Ranks are threads already.
    ThreadPool pool(op_case.mesh.num_ranks() > 1 ? 1 : num_usable_cores());
    for (const CaseInput& input : all_inputs(op_case)) {
      const std::string stream = fmt::format("{} {} {}", case_name(op_case), bytes.size(), rank);
      bytes.push_back(random_operand(input, seed, name_hash(stream), pool));
    }
  }
};

std::vector<Bytes> outputs_of(DeviceRun& run, const RankInputs& inputs, std::string& problem) {
  run.fill(inputs.bytes);
  run.run();
  if (problem.empty()) problem = run.stray_writes(inputs.bytes);
  return run.outputs();
}

// The accumulators of the case's op; a second node has none.
void fill_accumulators(RankInputs& inputs, const Graph& graph, std::byte value) {
  for (const InPlace& pair : in_place_pairs(graph.node(0))) {
    if (pair.always) std::ranges::fill(inputs.bytes[pair.input], value);
  }
}

// The fp32 weights of which a parameter is the rounding.
Bytes joined(const Bytes& parameter, const Bytes& low_halves) {
  Bytes weights(2 * parameter.size());
  for (std::size_t i = 0; i < parameter.size() / sizeof(Bf16); ++i) {
    Bf16 rounded;
    std::int16_t low = 0;
    std::memcpy(&rounded, parameter.data() + i * sizeof(rounded), sizeof(rounded));
    std::memcpy(&low, low_halves.data() + i * sizeof(low), sizeof(low));
    const std::uint32_t weight = join_halves(rounded.bits, low);
    std::memcpy(weights.data() + i * sizeof(weight), &weight, sizeof(weight));
  }
  return weights;
}

double worst_error(const Graph& graph, const std::vector<Bytes>& found, const std::vector<Bytes>& wanted) {
  const auto dtype = [&](std::size_t i) { return graph.type(graph.outputs()[i].value).dtype; };
  const std::size_t last = found.size() - 1;
  // Output 0 is the other half. Of a range alone, under ZeRO-1, there is no telling where it lies in output
  // 0.
  const bool halves = dtype(last) == DType::i16;
  const bool split = halves && found[0].size() == found[last].size();
  double worst = 0;
  for (std::size_t i = split ? 1 : 0; i < found.size() - (halves ? 1 : 0); ++i) {
    worst = std::max(worst, compare_values(dtype(i), found[i], wanted[i]));
  }
  if (!split) return worst;
  return std::max(worst,
                  compare_values(DType::f32, joined(found[0], found[last]), joined(wanted[0], wanted[last])));
}

// Where the tested device starts sums itself: over NaNs, against the reference adding to zeros. Both have
// been filled before; the inputs' accumulators are lost.
double error_of_started_sums(const Graph& graph, DeviceRun& reference, DeviceRun& tested,
                             RankInputs& inputs) {
  fill_accumulators(inputs, graph, std::byte{0});
  reference.refill(inputs.bytes);
  reference.run();
  fill_accumulators(inputs, graph, std::byte{0xff});
  tested.refill(inputs.bytes);
  tested.run(true);
  return worst_error(graph, tested.outputs(), reference.outputs());
}

CaseResult run_rank(const OpCase& op_case, Device& reference, Device& tested, const RankGroups* ranks,
                    const CaseOptions& options) {
  const Graph graph = graph_of(op_case);
  RankInputs inputs(op_case, options.seed, ranks ? ranks->world().rank() : 0);
  CaseResult result;
  result.cost = cost_of(graph);
  std::string problem_of_reference;
  DeviceRun wanted_run(reference, graph, ranks, false);
  const std::vector<Bytes> wanted = outputs_of(wanted_run, inputs, problem_of_reference);
  TS_CHECK(problem_of_reference.empty(), "the reference itself {}", problem_of_reference);

  DeviceRun run(tested, graph, ranks, false);
  if (op_case.next && options.expects_fused && !run.fused()) result.problem = "did not run as one";
  const std::vector<Bytes> found = outputs_of(run, inputs, result.problem);
  result.error = worst_error(graph, found, wanted);
  run.refill(inputs.bytes);
  run.run();
  if (!run.gives(found) && result.problem.empty()) result.problem = "gave other bits in a second run";
  if (differs_in_place(graph)) {
    DeviceRun in_place(tested, graph, ranks, true);
    const std::vector<Bytes> found_there = outputs_of(in_place, inputs, result.problem);
    if (found_there != found) {
      result.error = std::max(result.error, worst_error(graph, found_there, wanted));
      // A pair may have another kernel there: one that does not store what the second node lies on.
      if (result.problem.empty() && !op_case.next) result.problem = "gave other bits in place";
    }
  }
  if (tested.can_start_sums(op_case.op))
    result.error = std::max(result.error, error_of_started_sums(graph, wanted_run, run, inputs));
  if (options.timed) result.seconds = seconds_per_run(run, ranks);
  return result;
}

}  // namespace

CaseResult run_case(const OpCase& op_case, SelftestDevices& devices, const CaseOptions& options) {
  const int num_ranks = op_case.mesh.num_ranks();
  if (num_ranks == 1 && !op_case.grouped)
    return run_rank(op_case, *devices.alone.reference, *devices.alone.tested, nullptr, options);
  for (int rank = static_cast<int>(devices.of_ranks.size()); rank < num_ranks; ++rank)
    devices.of_ranks.push_back(devices.make_for_rank(rank));
  CaseResult all;
  std::mutex mutex;
  run_local_ranks(num_ranks, [&](Communicator& world) {
    const DevicePair& pair = devices.of_ranks[static_cast<std::size_t>(world.rank())];
    const RankGroups ranks(world, op_case.mesh, {.device = pair.tested.get(), .dp_of_one = op_case.grouped});
    const CaseResult own = run_rank(op_case, *pair.reference, *pair.tested, &ranks, options);
    const std::lock_guard lock(mutex);
    all.error = std::max(all.error, own.error);
    if (all.problem.empty() && !own.problem.empty()) {
      all.problem = fmt::format("rank {}: {}", world.rank(), own.problem);
    }
    all.seconds = own.seconds;
    all.cost = own.cost;
    all.link = ranks.link_text();
  });
  return all;
}

std::string case_ops(const OpCase& op_case) {
  std::string ops(op_name(op_case.op));
  if (op_case.next) ops.append("+").append(op_name(op_case.next->op));
  return ops;
}

std::string case_name(const OpCase& op_case) {
  std::string name = case_ops(op_case);
  for (std::size_t i = 0; i < std::min<std::size_t>(4, op_case.inputs.size()); ++i) {
    name += ' ' + op_case.inputs[i].type.text();
  }
  if (op_case.inputs.empty()) name += ' ' + op_case.attrs.text();
  if (!op_case.label.empty()) name += ", " + op_case.label;
  if (op_case.mesh.num_ranks() > 1) name += fmt::format(", {} ranks", op_case.mesh.num_ranks());
  if (op_case.grouped) name += ", 1 rank";
  return name;
}

}  // namespace tessera
