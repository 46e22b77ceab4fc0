// Where partition() puts collectives: the textbook's number of them, with the textbook's bytes; that they are
// needed; and what it refuses.
#include "tessera/partition/partition.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tessera/ops/activation.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/rms_norm.h"
#include "tessera/partition/layer_stages.h"
#include "tessera/runtime/make_executor.h"
#include "train/layout_run.h"

namespace tessera {
namespace {

constexpr std::int64_t kBatch = 4, kSeqLen = 12, kHidden = 24, kLayers = 3;

std::unique_ptr<Model> block_model(std::int64_t heads = 6, std::int64_t kv_heads = 6) {
  return make_llama({.vocab_size = 48,
                     .hidden_size = kHidden,
                     .layers = kLayers,
                     .heads = heads,
                     .kv_heads = kv_heads,
                     .head_dim = 4,
                     .ffn_size = 36,
                     .max_positions = 64});
}

Graph training_graph(const Model& model) {
  return build_training_graph(model, {.shape = {kBatch, kSeqLen}}).graph;
}

// What the live nodes of one layer send in a program: kind -> payloads.
using Sent = std::map<std::string, std::vector<std::int64_t>>;
Sent sent(const Graph& graph, Phase phase, Group group, std::optional<std::int32_t> layer = {}) {
  Sent found;
  for (NodeId id : live_nodes(graph)) {
    const Node& node = graph.node(id);
    if (node.phase != phase || (layer && node.layer != *layer)) continue;
    for (const Traffic& traffic : node_traffic(graph, node)) {
      if (traffic.group != group) continue;
      found[std::string(traffic.kind)].push_back(traffic.payload);
      const int n = node.attrs.as<CollectiveAttrs>().num_ranks;
      const std::int64_t once = traffic.payload * (n - 1) / n;
      EXPECT_EQ(traffic.sent, traffic.kind == "all_reduce" ? 2 * once : once) << node.name;
    }
  }
  return found;
}

// Megatron's f and g: one all-reduce after attention and one after the feed-forward, forward and backward.
TEST(PartitionTraffic, TensorParallelBlock) {
  const std::int64_t hidden = kBatch * kSeqLen * kHidden * 4;
  for (int tp : {2, 3, 6}) {
    const Graph graph = partition(training_graph(*block_model()), {.mesh = {.tp = tp}}).graph;
    const Sent wanted = {{"all_reduce", {hidden, hidden}}};
    EXPECT_EQ(sent(graph, Phase::forward, Group::tp, 1), wanted) << tp;
    EXPECT_EQ(sent(graph, Phase::backward, Group::tp, 1), wanted) << tp;
  }
}

// Each all-reduce becomes a reduce-scatter and an all-gather of the same bytes; backward gathers the inputs
// of the two column-cut products once more, for their weights' gradients.
TEST(PartitionTraffic, SequenceParallelBlock) {
  const std::int64_t hidden = kBatch * kSeqLen * kHidden * 4;
  for (int tp : {2, 3, 6}) {
    const Graph graph =
        partition(training_graph(*block_model()), {.mesh = {.tp = tp}, .sequence = true}).graph;
    const Sent forward = {{"all_gather", {hidden, hidden}}, {"reduce_scatter", {hidden, hidden}}};
    const Sent backward = {{"all_gather", {hidden, hidden, hidden, hidden}},
                           {"reduce_scatter", {hidden, hidden}}};
    EXPECT_EQ(sent(graph, Phase::forward, Group::tp, 1), forward) << tp;
    EXPECT_EQ(sent(graph, Phase::backward, Group::tp, 1), backward) << tp;
    // The norms' weights lie whole: two per layer and the last one, summed in the update.
    const std::int64_t norms = (2 * kLayers + 1) * kHidden * 4;
    EXPECT_EQ(sent(graph, Phase::update, Group::tp), (Sent{{"all_reduce", {norms, 8}}})) << tp;
  }
}

std::int64_t parameter_bytes(const Graph& graph, Role role = Role::parameter) {
  std::int64_t bytes = 0;
  for (const Value& value : graph.values()) bytes += value.role == role ? value.type.num_bytes() : 0;
  return bytes;
}

// All gradients once; and eight bytes of the norm.
TEST(PartitionTraffic, DataParallel) {
  const Graph whole = training_graph(*block_model());
  const std::int64_t bytes = parameter_bytes(whole);
  for (int dp : {2, 4}) {
    const Graph plain = partition(whole, {.mesh = {.dp = dp}}).graph;
    EXPECT_EQ(sent(plain, Phase::forward, Group::dp), Sent{});
    EXPECT_EQ(sent(plain, Phase::backward, Group::dp), Sent{});
    EXPECT_EQ(sent(plain, Phase::update, Group::dp), (Sent{{"all_reduce", {bytes, 8}}}));
    const Graph zero1 = partition(whole, {.mesh = {.dp = dp}, .zero1 = true}).graph;
    EXPECT_EQ(sent(zero1, Phase::update, Group::dp),
              (Sent{{"all_gather", {bytes}}, {"all_reduce", {8}}, {"reduce_scatter", {bytes}}}));
    EXPECT_EQ(parameter_bytes(zero1, Role::optimizer_state) * dp, 2 * bytes);  // every tensor divides
  }
}

TEST(PartitionTraffic, BucketsKeepToTheirSizeAndToOneStage) {
  const Graph whole = training_graph(*block_model());
  const std::vector<int> stage_of_layer = {0, 1, 1};
  const auto stages = parameter_stages(whole, stage_of_layer);
  for (std::int64_t bucket_bytes : {1, 4000, 9000, 1 << 20}) {
    const Graph graph = partition(whole, {.mesh = {.pp = 2, .dp = 2},
                                          .bucket_bytes = bucket_bytes,
                                          .stage_of_layer = stage_of_layer})
                            .graph;
    std::set<ValueId> seen;
    std::size_t num_buckets = 0;
    for (const Node& node : graph.nodes()) {
      if (node.op != Op::all_reduce || node.attrs.as<CollectiveAttrs>().group != Group::dp) continue;
      if (graph.type(node.inputs[0]).shape.rank() == 0) continue;  // the norm
      std::set<std::vector<int>> on;
      std::int64_t bytes = 0;
      for (ValueId v : node.inputs) {
        EXPECT_TRUE(seen.insert(v).second) << graph.value(v).name;
        on.insert(stages.at(parameter_of_state(graph.value(v))));
        bytes += graph.type(v).num_bytes();
      }
      EXPECT_EQ(on.size(), 1u) << node.name << " mixes stages";
      EXPECT_TRUE(bytes <= bucket_bytes || node.inputs.size() == 1) << node.name;
      ++num_buckets;
    }
    EXPECT_EQ(seen.size(), stages.size());  // every gradient in one bucket
    EXPECT_TRUE(bucket_bytes < 1 << 20 || num_buckets == 2) << num_buckets;
    EXPECT_TRUE(bucket_bytes > 1 || num_buckets == stages.size()) << num_buckets;
  }
}

// x -> linear -> gelu -> linear -> norm: the second product is a term of a sum on every rank, the norm reads
// it whole.
TEST(Partition, APartialValueThatSomethingReadsIsSummed) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {2, 5, 8}}, Role::batch);
  const ValueId up = graph.add_input("up", {DType::f32, {16, 8}}, Role::parameter);
  const ValueId down = graph.add_input("down", {DType::f32, {8, 16}}, Role::parameter);
  const ValueId w = graph.add_input("norm", {DType::f32, {8}}, Role::parameter);
  const ValueId hidden =
      linear(graph, "second", gelu(graph, "gelu", linear(graph, "first", x, up), true), down);
  graph.mark_output("y", rms_norm(graph, "normed", hidden, w, 1e-5));
  for (const bool sequence : {false, true}) {
    const Partitioned result = partition(graph, {.mesh = {.tp = 2}, .sequence = sequence});
    std::vector<std::string> ops;
    for (const Node& node : result.graph.nodes()) ops.emplace_back(op_name(node.op));
    const std::vector<std::string> plain = {"linear", "gelu", "linear", "all_reduce", "rms_norm"};
    const std::vector<std::string> cut = {"linear",         "gelu",     "linear",
                                          "reduce_scatter", "rms_norm", "all_gather"};
    EXPECT_EQ(ops, sequence ? cut : plain);
    EXPECT_EQ(result.graph.type(result.graph.find_input("up")).shape, (Shape{8, 8}));
    EXPECT_EQ(result.graph.type(result.graph.find_input("down")).shape, (Shape{8, 8}));
    for (const Node& node : result.graph.nodes()) {
      if (node.op != Op::all_reduce && node.op != Op::reduce_scatter) continue;
      const std::string& why = node.attrs.as<CollectiveAttrs>().why;
      EXPECT_NE(why.find("second"), std::string::npos) << why;  // who made it and who reads it
      EXPECT_NE(why.find("normed"), std::string::npos) << why;
    }
  }
}

// The same graph without some of its nodes, each of which hands its inputs on.
Graph without(const Graph& from, bool (*drops)(const Node&)) {
  Graph to;
  std::map<ValueId, ValueId> ids;
  for (ValueId v = 0; v < from.num_values(); ++v) {
    const Value& value = from.value(v);
    if (value.producer == kNoNode) ids[v] = to.add_input(value.name, value.type, value.role);
  }
  for (const Node& node : from.nodes()) {
    std::vector<ValueId> outputs;
    for (ValueId v : node.inputs) outputs.push_back(ids.at(v));
    std::vector<ValueType> types;
    for (ValueId v : node.outputs) types.push_back(from.type(v));
    to.set_layer(node.layer);
    if (!drops(node))
      outputs = to.add_node(node.op, node.phase, node.name, node.attrs, std::move(outputs), types);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) ids[node.outputs[i]] = outputs[i];
  }
  for (const StateUpdate& u : from.state_updates()) to.add_state_update(ids.at(u.before), ids.at(u.after));
  for (const Output& output : from.outputs()) to.mark_output(output.name, ids.at(output.value));
  return to;
}

// The norms' weights after one step on two ranks, or on one.
std::map<std::string, std::vector<float>> norm_weights(const Model& model, int tp, bool with_reduction) {
  const LayoutRun run{model, {}, kSeqLen, kBatch, kBatch};
  std::map<std::string, std::vector<float>> found;
  const auto rank_program = [&](Communicator* world) {
    Layout layout;
    layout.mesh.tp = tp;
    layout.sequence = true;
    const BuiltGraph built = build_training_graph(model, {.shape = {kBatch, kSeqLen}});
    Partitioned mine = partition_layout(built.graph, layout, {});
    const auto is_reduction = [](const Node& node) {
      return node.phase == Phase::update && node.op == Op::all_reduce && node.name.starts_with("gradients.");
    };
    if (!with_reduction) mine.graph = without(mine.graph, is_reduction);
    const auto ranks = world ? std::make_unique<RankGroups>(*world, layout.mesh) : nullptr;
    const auto device = make_cpu_device(1);
    const auto executor = make_executor(*device, std::move(mine.graph), {.ranks = ranks.get()});
    const WeightStore weights(*executor, mine.state, ranks.get());
    initialize_weights(weights, built.parameters, 3);
    std::vector<std::int32_t> ids, targets;
    fill_batch(run, 0, ids, targets);
    const float scale = 0.02f, rate = 0.01f;
    const std::int32_t number = 1;
    executor->write<std::int32_t>(kIdsInput, ids);
    executor->write<std::int32_t>(kTargetsInput, targets);
    executor->write<float>(kLossScaleInput, {&scale, 1});
    executor->write<float>(kLearningRateInput, {&rate, 1});
    executor->write<std::int32_t>(kStepInput, {&number, 1});
    for (Phase phase : {Phase::forward, Phase::backward, Phase::update}) executor->run(phase);
    for (const Parameter& parameter : built.parameters) {
      const std::string& name = parameter.name;
      if (!name.ends_with("norm.weight")) continue;
      const std::vector<float> values = weights.read(name);
      if (world == nullptr || world->rank() == 0) found[name] = values;
    }
  };
  if (tp == 1) {
    rank_program(nullptr);
  } else {
    run_local_ranks(tp, [&](Communicator& world) { rank_program(&world); });
  }
  return found;
}

double largest_difference(const std::map<std::string, std::vector<float>>& a,
                          const std::map<std::string, std::vector<float>>& b) {
  TS_CHECK(a.size() == b.size(), "found {} weights, expected {}", a.size(), b.size());
  double largest = 0;
  for (const auto& [name, values] : a) {
    const std::vector<float>& other = b.at(name);
    TS_CHECK(values.size() == other.size(), "{}: found {} elements, expected {}", name, values.size(),
             other.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest =
          larger_error(largest, std::abs(static_cast<double>(values[i]) - static_cast<double>(other[i])));
    }
  }
  return largest;
}

// Norm weights lie whole on every rank, but each rank has seen a part of the sequence: without the sum over
// tp the update would take another way.
TEST(Partition, AReplicatedWeightInASequenceParallelRegionNeedsItsReduction) {
  const auto model = block_model();
  const auto wanted = norm_weights(*model, 1, true);
  ASSERT_EQ(wanted.size(), static_cast<std::size_t>(2 * kLayers + 1));
  EXPECT_LT(largest_difference(norm_weights(*model, 2, true), wanted), 1e-5);
  EXPECT_GT(largest_difference(norm_weights(*model, 2, false), wanted), 1e-3);
}

template <class F>
void expect_refused(const F& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "accepted; expected a refusal that says " << parts[0];
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(PartitionRefuses, HeadsThatDoNotDivide) {
  const Graph whole = training_graph(*block_model(6, 2));
  expect_refused([&] { partition(whole, {.mesh = {.tp = 4}}); }, {".attention: 6 heads", "parallel.tp = 4"});
}

TEST(PartitionRefuses, MoreStagesThanLayers) {
  Layout layout;
  layout.mesh.pp = 4;
  expect_refused([&] { resolved(layout, kLayers); }, {"parallel.pp = 4", "the model has 3"});
  layout.mesh.pp = 2;
  layout.schedule = ScheduleKind::interleaved;
  layout.chunks = 2;
  expect_refused([&] { resolved(layout, kLayers); }, {"pipeline.chunks = 2", "4 layers", "the model has 3"});
}

// A bias that a column-cut product has cut, read again as the weight of a norm, which needs all of it.
TEST(PartitionRefuses, AWeightThatTwoReadersWantDifferently) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {2, 5, 8}}, Role::batch);
  const ValueId w = graph.add_input("w", {DType::f32, {8, 8}}, Role::parameter);
  const ValueId bias = graph.add_input("bias", {DType::f32, {8}}, Role::parameter);
  graph.mark_output("y", linear(graph, "product", x, w, bias));
  graph.mark_output("z", rms_norm(graph, "second_reader", x, bias, 1e-5));
  expect_refused([&] { partition(graph, {.mesh = {.tp = 2}}); },
                 {"[rms_norm] second_reader", "tp = 2", "bias is shard(0)"});
}

}  // namespace
}  // namespace tessera
