// Every op's placement rule against the op itself: whatever way of running a node on n ranks a rule lists,
// the shards it reads and writes must be those of the whole node's operands. In double, on the CPU device.
#include "tessera/ops/placement_rule.h"

#include <gtest/gtest.h>

#include <set>

#include "partition/node_run.h"
#include "partition/rule_cases.h"
#include "partition/shard_values.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/comm/local/local_world.h"

namespace tessera {
namespace {

using cpu::HostTensor;

constexpr char kTerms = 'P';  // in `covered`: run on terms of sums

Node node_of(const RuleCase& c, const Attrs& attrs, const std::vector<ValueType>& types, Graph& graph) {
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    inputs.push_back(graph.add_input("in" + std::to_string(i), types[i], Role::batch));
  }
  emit(graph, c.op, Phase::forward, "node", attrs, inputs);
  return graph.node(0);
}

Values values_of(const CaseInput& input, std::uint64_t stream) {
  const bool whole_numbers = input.type.dtype == DType::i32 || input.type.dtype == DType::i16;
  const HostTensor tensor = whole_numbers ? cpu::random_ids(input.type.shape, stream, input.least, input.most)
                                          : cpu::random_tensor(input.type.dtype, input.type.shape, stream);
  Values values = tensor.values();
  for (double& value : values) value = input.positive ? std::abs(value) : value;
  return values;
}

// A case, run whole.
struct WholeRun {
  explicit WholeRun(const RuleCase& c) : rule_case(c) {
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      input_types.push_back(c.inputs[i].type);
      inputs.push_back(values_of(c.inputs[i], i));
    }
    node = node_of(c, c.attrs, input_types, graph);
    for (ValueId v : node.outputs) output_types.push_back(graph.type(v));
    outputs = run_node(*make_cpu_device(1), graph, node, inputs, nullptr);
  }

  const RuleCase& rule_case;
  Graph graph;
  Node node;
  std::vector<ValueType> input_types, output_types;
  std::vector<Values> inputs, outputs;
};

class PlacementRuleTest : public testing::Test {
 protected:
  PlacementRuleTest() {
    for (int i = 0; i < 3; ++i) devices_.push_back(make_cpu_device(1));
  }

  // Runs one strategy on its ranks and compares every output with the whole one.
  void check(const WholeRun& whole, const PlacementCall& call, const Strategy& strategy) {
    const RuleCase& c = whole.rule_case;
    const PlacementRule& rule = op_def(c.op).placement;
    const Attrs attrs = rule.local_attrs ? rule.local_attrs(call, c.attrs, strategy) : c.attrs;
    std::vector<ShardedTensor> inputs;
    std::vector<std::vector<Values>> parts;  // by input and rank
    std::vector<ValueType> local_types;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const bool compact = strategy.inputs[i].is_flat() && c.inputs[i].optimizer_state;
      inputs.push_back({c.inputs[i].type, strategy.inputs[i], compact, call.num_ranks});
      parts.push_back(cut_values(inputs[i], whole.inputs[i], i));
      local_types.push_back(inputs[i].local());
    }
    Graph graph;
    const Node node = node_of(c, attrs, local_types, graph);
    std::vector<std::vector<Values>> results(static_cast<std::size_t>(call.num_ranks));
    const Mesh mesh = call.axis == Axis::tp ? Mesh{.tp = call.num_ranks} : Mesh{.dp = call.num_ranks};
    run_local_ranks(call.num_ranks, [&](Communicator& world) {
      const RankGroups ranks(world, mesh);
      const auto rank = static_cast<std::size_t>(world.rank());
      std::vector<Values> mine;
      for (const std::vector<Values>& part : parts) mine.push_back(part[rank]);
      set_first_sequence(call, strategy, local_types, world.rank(), mine);
      results[rank] = run_node(*devices_[rank], graph, node, mine, &ranks);
    });
    for (std::size_t o = 0; o < node.outputs.size(); ++o) compare(whole, strategy, call, node, results, o);
  }

  static bool is_dropout(const PlacementCall& call) {
    return call.node.op == Op::dropout_add || call.node.op == Op::dropout_grad;
  }
  static bool cuts_rows(const Strategy& strategy) { return strategy.letter == '.' && strategy.dim == 0; }

  // Which sequence comes first is what a dp rank's dropout key says.
  static void set_first_sequence(const PlacementCall& call, const Strategy& strategy,
                                 const std::vector<ValueType>& local, int rank, std::vector<Values>& inputs) {
    const Op op = call.node.op;
    const bool attention =
        (op == Op::attention || op == Op::attention_grad) && call.node.attrs.as<AttentionAttrs>().drops();
    const bool rows = (is_dropout(call) && cuts_rows(strategy)) || (attention && strategy.letter == 'b');
    if (call.axis != Axis::dp || !rows) return;
    inputs[attention ? inputs.size() - 1 : 1][3] += static_cast<double>(rank * local[0].shape[0]);
  }

  static void compare(const WholeRun& whole, const Strategy& strategy, const PlacementCall& call,
                      const Node& node, const std::vector<std::vector<Values>>& results, std::size_t o) {
    ShardedTensor tensor{whole.output_types[o], strategy.outputs[o], false, call.num_ranks};
    bool stays_zero = false;
    for (const InPlace& pair : in_place_pairs(node)) {
      if (pair.output != o) continue;
      tensor.compact |= tensor.placement.is_flat() && whole.rule_case.inputs[pair.input].optimizer_state;
      stays_zero |= pair.always && tensor.placement.is_shard();
    }
    double largest = 0;
    for (double value : whole.outputs[o]) largest = std::max(largest, std::abs(value));
    // Sums in another order; what is rounded to fewer digits is never a sum here.
    const bool exact = whole.output_types[o].dtype != DType::f64;
    const double bound = exact ? 0.0 : 1e-13 * (1 + largest);
    std::vector<Values> parts;
    for (const std::vector<Values>& rank : results) parts.push_back(rank[o]);
    int wrong = 0;
    expect_parts(tensor, parts, whole.outputs[o], [&](double found, double wanted) {
      const bool close = std::abs(found - wanted) <= bound;
      EXPECT_TRUE(close || wrong++ > 0) << "output " << o << " has " << found << ", expected " << wanted;
    });
    for (int rank = 0; stays_zero && rank < call.num_ranks; ++rank) {
      EXPECT_TRUE(padding_is_zero(tensor, rank, parts[static_cast<std::size_t>(rank)])) << "output " << o;
    }
  }

  void check_all(const WholeRun& whole, const PlacementCall& call, const std::string& how) {
    for (const Strategy& strategy : placement_strategies(op_def(call.node.op).placement, call)) {
      // Only those that read what is there as it is.
      bool as_it_is = true;
      for (std::size_t i = 0; i < call.current.size(); ++i) {
        as_it_is &= call.current[i] == nullptr || *call.current[i] == strategy.inputs[i];
      }
      if (!as_it_is) continue;
      std::string text =
          fmt::format("{} on {} = {}, {}: cut '{}'", op_name(call.node.op), axis_name(call.axis),
                      call.num_ranks, how, strategy.letter ? strategy.letter : '-');
      for (std::size_t i = 0; i < whole.input_types.size(); ++i) {
        text += fmt::format("; {} {}", whole.input_types[i].text(), strategy.inputs[i].text());
      }
      SCOPED_TRACE(text);
      // On dp that key takes rows to be cut.
      if (is_dropout(call) && call.axis == Axis::dp && !cuts_rows(strategy)) {
        EXPECT_THROW(op_def(call.node.op).placement.local_attrs(call, whole.node.attrs, strategy), Error);
        continue;
      }
      check(whole, call, strategy);
      const bool terms = strategy.letter == 0 && strategy.inputs[0].is_partial();
      covered_.insert({call.node.op, terms ? kTerms : strategy.letter});
      ++num_checked_;
    }
  }

  std::vector<std::unique_ptr<Device>> devices_;
  std::set<std::pair<Op, char>> covered_;
  int num_checked_ = 0;
};

// Two blocks, each cut on its own.
std::vector<Block> packed(std::int64_t size, int num_ranks) {
  const std::int64_t first = (size + 1) / 2;
  return {{first, num_ranks, 1}, {size - first, num_ranks, 1}};
}

// The second block has fewer pieces than there are places for them: neighbours share one piece on two ranks;
// on three, the one in the middle has a copy of either neighbour's.
std::vector<Block> shared(std::int64_t size, int num_ranks) {
  const std::int64_t first = (size + 1) / 2;
  const Block copies = num_ranks == 2 ? Block{size - first, 1, 1} : Block{size - first, 2, 2};
  return {{first, num_ranks, 1}, copies};
}

TEST_F(PlacementRuleTest, EveryStrategyGivesShardsOfTheWhole) {
  for (const RuleCase& c : rule_cases()) {
    const WholeRun whole(c);
    const Shape& out = whole.output_types[0].shape;
    for (const Axis axis : {Axis::tp, Axis::dp}) {
      for (const int num_ranks : {2, 3}) {
        PlacementCall call{whole.node, whole.input_types, whole.output_types, axis, num_ranks};
        check_all(whole, call, "nothing decided");
        if (axis != Axis::tp || op_def(c.op).grad == nullptr || out.rank() == 0 || out[-1] < 4) continue;
        call.wanted = packed(out[-1], num_ranks);
        check_all(whole, call, "wanted packed");
        call.wanted = shared(out[-1], num_ranks);
        check_all(whole, call, "wanted with copies");
      }
    }
  }
  for (int i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<Op>(i);
    const PlacementRule& rule = op_def(op).placement;
    const bool has_rule = !rule.operands.empty() || rule.signature != nullptr;
    if (!has_rule) continue;
    for (char letter : rule.cuts)
      EXPECT_TRUE(covered_.contains({op, letter})) << op_name(op) << " '" << letter << "'";
    EXPECT_TRUE(covered_.contains({op, '\0'})) << op_name(op);
    EXPECT_TRUE(!rule.flat || covered_.contains({op, 'F'})) << op_name(op) << " on a range of elements";
    EXPECT_TRUE(!rule.sums || covered_.contains({op, kTerms})) << op_name(op) << " on terms of sums";
  }
  std::printf("%d ways to run a node\n", num_checked_);
}

// Gradients of shared heads are terms of a sum until somebody adds them up.
TEST_F(PlacementRuleTest, GradientsWithCopiesFlowOnAsTerms) {
  for (const RuleCase& c : rule_cases()) {
    if (c.gradients.empty()) continue;
    const WholeRun whole(c);
    const Shape& gradient = whole.input_types[c.gradients[0]].shape;
    if (gradient[-1] < 4) continue;
    for (const int num_ranks : {2, 3}) {
      PlacementCall call{whole.node, whole.input_types, whole.output_types, Axis::tp, num_ranks};
      std::vector<Block> blocks = shared(gradient[-1], num_ranks);
      if (c.op == Op::rope) blocks = qkv_blocks(c.attrs.as<RopeAttrs>().heads, call);
      Placement terms = shard(gradient.rank() - 1, blocks);
      terms.copies_agree = false;
      std::vector<const Placement*> current(c.inputs.size(), nullptr);
      for (std::size_t i : c.gradients) current[i] = &terms;
      call.current = current;
      check_all(whole, call, "a gradient with unsummed copies");
    }
  }
  for (Op op : {Op::linear_grad_input, Op::linear_grad_weight}) {
    EXPECT_TRUE(covered_.contains({op, 'n'})) << op_name(op);
  }
  EXPECT_TRUE(covered_.contains({Op::rope, 'h'}));
  EXPECT_TRUE(covered_.contains({Op::sum_to, '.'}));
}

// The update reads weights whose copies agree: each element counts once in the norm and moves once.
TEST_F(PlacementRuleTest, UpdatesOfWeightsWithCopies) {
  const std::set<Op> updates = {Op::sum_squares, Op::adamw, Op::lamb_direction, Op::lamb, Op::sgd};
  for (const RuleCase& c : rule_cases()) {
    if (!updates.contains(c.op)) continue;
    const WholeRun whole(c);
    const Shape& shape = whole.input_types[0].shape;
    if (shape[0] < 4) continue;
    for (const int num_ranks : {2, 3}) {
      const Placement copies = shard(0, shared(shape[0], num_ranks));
      std::vector<const Placement*> current(c.inputs.size(), nullptr);
      current[0] = &copies;
      const PlacementCall call{whole.node, whole.input_types, whole.output_types,
                               Axis::tp,   num_ranks,         current};
      check_all(whole, call, "copies that agree");
    }
  }
  for (Op op : updates) EXPECT_TRUE(covered_.contains({op, '.'})) << op_name(op);
}

}  // namespace
}  // namespace tessera
