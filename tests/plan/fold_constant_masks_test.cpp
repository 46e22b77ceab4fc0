// A model that writes attention out with a constant mask compiles to the nodes of one that uses the op.
#include "tessera/plan/fold_constant_masks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tessera/autodiff/differentiate.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/nn/layers.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/cross_entropy.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/embedding.h"
#include "tessera/ops/matmul.h"
#include "tessera/ops/slice.h"
#include "tessera/ops/softmax.h"
#include "tessera/ops/verify.h"
#include "tessera/runtime/executor.h"
#include "tessera/train/build_graph.h"

namespace tessera {
namespace {

using AttentionWriter = std::function<ValueId(Graph&, const std::string&, ValueId, const AttentionAttrs&)>;

ValueId fused(Graph& graph, const std::string& name, ValueId qkv, const AttentionAttrs& attrs) {
  return attention(graph, name, qkv, attrs);
}

// As ops/attention.cpp states its meaning in plain ops.
ValueId composed(Graph& graph, const std::string& name, ValueId qkv, const AttentionAttrs& attrs) {
  const Node node{.op = Op::attention, .name = name, .attrs = attrs, .inputs = {qkv}};
  return op_def(Op::attention).compose(graph, node)[0];
}

// As a user may write it: queries scaled before the product, one mask for all, itself scaled.
ValueId written_by_hand(Graph& graph, const std::string& name, ValueId qkv, const AttentionAttrs& attrs) {
  const auto [heads, kv_heads, dim] = attrs.heads;
  const ValueType type = graph.type(qkv);
  const ValueId mask =
      scale(graph, name + ".mask", causal_mask(graph, name + ".triangle", type.dtype, type.shape[1]), 3.0);
  std::vector<ValueId> outs;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::string head = name + "." + std::to_string(h);
    const std::int64_t kv = h / (heads / kv_heads);
    const ValueId q =
        scale(graph, head + ".scaled", slice(graph, head + ".q", qkv, h * dim, dim), attrs.scale);
    const ValueId k = slice(graph, head + ".k", qkv, (heads + kv) * dim, dim);
    const ValueId v = slice(graph, head + ".v", qkv, (heads + kv_heads + kv) * dim, dim);
    const ValueId scores =
        add(graph, head + ".masked", matmul(graph, head + ".qk", q, k, {.transpose_b = true}), mask);
    outs.push_back(matmul(graph, head + ".pv", softmax(graph, head + ".softmax", scores), v));
  }
  return heads == 1 ? outs[0] : concat(graph, name, outs);
}

// A small causal model whose attention is written as the test says.
class OwnModel final : public Model {
 public:
  OwnModel(AttentionWriter writer, HeadLayout heads) : writer_(std::move(writer)), heads_(heads) {}

  std::int64_t vocab_size() const override { return 23; }
  std::int64_t max_positions() const override { return 64; }
  std::vector<Prediction> build(ModelBuilder& builder, ValueId ids) const override {
    Graph& graph = builder.graph();
    const ValueId table = builder.parameter("embed.weight", Shape{23, 12}, normal_init(0.5));
    ValueId x = embedding(graph, "embed", table, ids);
    for (std::int32_t layer = 0; layer < 2; ++layer) {
      graph.set_layer(layer);
      const std::string name = "layers." + std::to_string(layer);
      const ValueId qkv = linear_layer(builder, name + ".qkv", x, heads_.qkv_columns(), {.init_std = 0.5});
      const ValueId out = writer_(graph, name + ".attention", qkv, {heads_, 0.5, true});
      x = add(graph, name + ".sum", x, linear_layer(builder, name + ".out", out, 12, {.init_std = 0.5}));
    }
    graph.set_layer(2);
    return {{x, table}};
  }
  std::vector<ExternalTensor> external_tensors() const override { return {}; }
  std::string config_json() const override { return "{}"; }

 private:
  AttentionWriter writer_;
  HeadLayout heads_;
};

// Nodes without their names: op, program, attributes and operands, by position.
std::vector<std::string> shape_of(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Node& node : graph.nodes()) {
    std::string line = fmt::format("{} {} in layer {} [{}]", phase_name(node.phase), op_name(node.op),
                                   node.layer, node.attrs.text());
    for (ValueId v : node.inputs) line += " " + std::to_string(v);
    line += " ->";
    for (ValueId v : node.outputs) line += " " + std::to_string(v);
    lines.push_back(line);
  }
  return lines;
}

const HeadLayout kLayouts[] = {{4, 4, 3}, {4, 2, 5}, {3, 1, 4}, {1, 1, 12}};

TEST(FoldConstantMasks, CompilesToTheNodesOfTheAttentionOp) {
  for (const HeadLayout& heads : kLayouts) {
    const TrainingGraphOptions options{.shape = {2, 7}};
    const BuiltGraph wanted = build_training_graph(OwnModel(fused, heads), options);
    EXPECT_EQ(wanted.folded_text(), "");
    for (const AttentionWriter& writer : {AttentionWriter(composed), AttentionWriter(written_by_hand)}) {
      const BuiltGraph found = build_training_graph(OwnModel(writer, heads), options);
      verify(found.graph);
      EXPECT_EQ(shape_of(found.graph), shape_of(wanted.graph));
      EXPECT_EQ(found.folded_text(), "2 attentions with a constant mask");
    }
    const BuiltGraph loss = build_loss_graph(OwnModel(composed, heads), {2, 7}, DType::f32);
    EXPECT_EQ(shape_of(loss.graph),
              shape_of(build_loss_graph(OwnModel(fused, heads), {2, 7}, DType::f32).graph));
    EXPECT_EQ(loss.folded_attentions.size(), 2u);
  }
}

// Loss and gradients of a graph of the model, in double.
std::vector<std::vector<double>> gradients_of(const AttentionWriter& writer, const HeadLayout& heads,
                                              bool fold) {
  const OwnModel model(writer, heads);
  ModelBuilder builder(DType::f64, true);
  Graph graph;
  const ValueId ids = builder.graph().add_input("ids", {DType::i32, {2, 7}}, Role::batch);
  const ValueId targets = builder.graph().add_input("targets", {DType::i32, {2, 7}}, Role::batch);
  const ValueId loss_scale = builder.graph().add_input("loss_scale", {DType::f64, Shape{}}, Role::scalar);
  const Prediction out = model.build(builder, ids)[0];
  ValueId loss = linear_cross_entropy(builder.graph(), "loss", out.hidden, {out.weight}, targets, loss_scale);
  if (fold) {
    FoldedMasks folded = fold_constant_masks(builder.graph());
    EXPECT_EQ(folded.names.size(), 2u);
    loss = folded.at(loss);
    graph = std::move(folded.graph);
  } else {
    graph = builder.graph();
  }
  const Gradients gradients = differentiate(graph, loss);
  graph.mark_output("loss", gradients.loss);
  const auto device = make_cpu_device(1);
  Plan plan = compile(graph, [&](const Graph& g, const Node& n) { return device->workspace_bytes(g, n); });
  Executor executor(graph, std::move(plan), *device);
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 14; ++i) tokens.push_back(i * i % 23);
  executor.write<std::int32_t>("ids", tokens);
  executor.write<std::int32_t>("targets", tokens);
  executor.write<double>("loss_scale", std::vector<double>{1.0 / 14});
  for (const Parameter& p : builder.parameters()) {
    std::vector<float> values(static_cast<std::size_t>(p.type.shape.num_elems()));
    fill_initial_values(p, 5, 0, values);
    executor.write<double>(p.name, std::vector<double>(values.begin(), values.end()));
  }
  executor.run(Phase::forward);
  executor.run(Phase::backward);
  std::vector<std::vector<double>> result = {{static_cast<double>(executor.read_scalar("loss"))}};
  for (const Parameter& p : builder.parameters()) {
    const auto grad = executor.input("grad." + p.name).as<double>();
    result.emplace_back(grad.begin(), grad.end());
  }
  return result;
}

TEST(FoldConstantMasks, GradientsAreThoseOfTheWrittenForm) {
  for (const HeadLayout& heads : kLayouts) {
    for (const AttentionWriter& writer : {AttentionWriter(composed), AttentionWriter(written_by_hand)}) {
      const auto found = gradients_of(writer, heads, true), wanted = gradients_of(writer, heads, false);
      ASSERT_EQ(found.size(), wanted.size());
      EXPECT_FLOAT_EQ(static_cast<float>(found[0][0]), static_cast<float>(wanted[0][0]));
      for (std::size_t p = 1; p < found.size(); ++p) {
        for (std::size_t i = 0; i < found[p].size(); ++i) ASSERT_NEAR(found[p][i], wanted[p][i], 1e-12);
      }
    }
  }
}

// One head over columns 0 to 4, 4 to 8 and 8 to 12 of qkv, with one thing changed by each case.
struct OneHead {
  std::int64_t k_begin = 4;
  double mask_scale = 1.0, query_scale = 1.0;
  bool constant_mask = true, masked = true, transpose = true, second_reader = false;
};
Graph one_head(const OneHead& c) {
  Graph graph;
  const ValueId qkv = graph.add_input("qkv", {DType::f32, {2, 4, 12}}, Role::batch);
  const ValueId given = graph.add_input("given", {DType::f32, {4, 4}}, Role::batch);
  const ValueId mask = c.constant_mask
                           ? scale(graph, "mask", causal_mask(graph, "triangle", DType::f32, 4), c.mask_scale)
                           : given;
  const ValueId q = scale(graph, "scaled", slice(graph, "q", qkv, 0, 4), c.query_scale);
  const ValueId k = slice(graph, "k", qkv, c.k_begin, 4);
  ValueId scores = matmul(graph, "qk", q, k, {.transpose_b = c.transpose});
  if (c.masked) scores = add(graph, "masked", scores, mask);
  const ValueId weights = softmax(graph, "weights", scores);
  graph.mark_output("out", matmul(graph, "pv", weights, slice(graph, "v", qkv, 8, 4)));
  if (c.second_reader) graph.mark_output("weights", weights);
  return graph;
}

TEST(FoldConstantMasks, LeavesWhatIsNotCausalAttention) {
  EXPECT_EQ(fold_constant_masks(one_head({})).names, std::vector<std::string>{"pv"});
  for (const OneHead& c :
       {OneHead{.k_begin = 0}, OneHead{.mask_scale = -1.0}, OneHead{.query_scale = -1.0},
        OneHead{.constant_mask = false}, OneHead{.masked = false}, OneHead{.transpose = false}}) {
    const Graph graph = one_head(c);
    const FoldedMasks folded = fold_constant_masks(graph);
    EXPECT_TRUE(folded.names.empty());
    EXPECT_EQ(shape_of(folded.graph).size(), shape_of(graph).size());
  }
}

// The weights themselves are wanted: they stay, and the attention is fused nevertheless.
TEST(FoldConstantMasks, KeepsWhatSomethingElseReads) {
  const FoldedMasks folded = fold_constant_masks(one_head({.second_reader = true}));
  verify(folded.graph);
  EXPECT_EQ(folded.names.size(), 1u);
  EXPECT_NE(folded.graph.find_output("weights"), kNoValue);
  std::vector<std::string> ops;
  for (const Node& node : folded.graph.nodes()) ops.emplace_back(op_name(node.op));
  EXPECT_EQ(ops, (std::vector<std::string>{"causal_mask", "scale", "slice", "scale", "slice", "matmul", "add",
                                           "softmax", "attention"}));
}

}  // namespace
}  // namespace tessera
