// The walk: what adds up, what is refused. That each op's rule is right is tested in tests/ops.
#include "tessera/autodiff/differentiate.h"

#include <gtest/gtest.h>

#include <memory>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/ops/cross_entropy.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/embedding.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/optimizer_ops.h"
#include "tessera/ops/rms_norm.h"
#include "tessera/ops/rope.h"
#include "tessera/runtime/executor.h"

namespace tessera {
namespace {

using Doubles = std::vector<double>;

ValueType f64(const Shape& shape) {
  return {DType::f64, shape};
}

class Differentiate : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device(2);

  std::unique_ptr<Executor> make(Graph graph) {
    Plan plan = compile(graph, [&](const Graph& g, const Node& n) { return device_->workspace_bytes(g, n); });
    return std::make_unique<Executor>(std::move(graph), std::move(plan), *device_);
  }
  static void step(Executor& executor) {
    executor.run(Phase::forward);
    executor.run(Phase::backward);
  }
  static Doubles read(const TensorView& view) { return {view.as<double>().begin(), view.as<double>().end()}; }
};

std::string complaint(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// L = x . w scaled: with the seed 1 its gradients are known by hand.
TEST_F(Differentiate, ValueWithTwoConsumersSumsTheirGradients) {
  Graph graph;
  const ValueId x = graph.add_input("x", f64({3}), Role::batch);
  const ValueId h = scale(graph, "h", x, 2.0);
  const ValueId y = add(graph, "y", mul(graph, "square", h, h), scale(graph, "five", h, 5.0));
  const GradientSeed seed{y, graph.add_input("dy", f64({3}), Role::batch)};
  const Gradients gradients = differentiate(graph, std::span(&seed, 1), std::span(&x, 1));
  graph.mark_output("dx", gradients.wanted[0]);
  auto executor = make(std::move(graph));
  executor->write<double>("x", Doubles{1, -2, 3});
  executor->write<double>("dy", Doubles{1, 10, 100});
  step(*executor);
  // y = 4 x^2 + 10 x
  EXPECT_EQ(read(executor->output("dx")), (Doubles{18, -60, 3400}));
}

// A tied embedding: the table is read by the first op and by the loss.
TEST_F(Differentiate, SharedParameterAccumulatesFromBothUses) {
  const auto build = [&](bool tied) {
    Graph graph;
    const ValueId ids = graph.add_input("ids", {DType::i32, {2, 3}}, Role::batch);
    const ValueId targets = graph.add_input("targets", {DType::i32, {2, 3}}, Role::batch);
    const ValueId loss_scale = graph.add_input("loss_scale", f64({}), Role::scalar);
    const ValueId table = graph.add_input("table", f64({5, 4}), Role::parameter);
    const ValueId head = tied ? table : graph.add_input("head", f64({5, 4}), Role::parameter);
    const ValueId x = embedding(graph, "embed", table, ids);
    const Gradients g =
        differentiate(graph, linear_cross_entropy(graph, "loss", x, {head}, targets, loss_scale));
    EXPECT_EQ(g.parameters.size(), tied ? 1u : 2u);
    graph.mark_output("loss", g.loss);
    auto executor = make(std::move(graph));
    Doubles values;
    for (int i = 0; i < 20; ++i) values.push_back(0.1 * ((i * 7) % 11) - 0.5);
    executor->write<double>("table", values);
    if (!tied) executor->write<double>("head", values);
    executor->write<std::int32_t>("ids", std::vector<std::int32_t>{0, 1, 2, 3, 4, 1});
    executor->write<std::int32_t>("targets", std::vector<std::int32_t>{1, 2, 3, 4, 1, -1});
    executor->write<double>("loss_scale", Doubles{0.2});
    step(*executor);
    return executor;
  };
  const auto tied = build(true), untied = build(false);
  const Doubles sum = read(tied->input("grad.table"));
  const Doubles table = read(untied->input("grad.table")), head = read(untied->input("grad.head"));
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], table[i] + head[i], 1e-15);
}

// Only what one product makes may be rounded: not what is added up from several uses, nor a bias.
TEST_F(Differentiate, RoundedProducts) {
  Graph graph;
  const auto bf16 = [](const Shape& shape) { return ValueType{DType::bf16, shape}; };
  const ValueId ids = graph.add_input("ids", {DType::i32, {2, 3}}, Role::batch);
  const ValueId targets = graph.add_input("targets", {DType::i32, {2, 3}}, Role::batch);
  const ValueId loss_scale = graph.add_input("loss_scale", {DType::f32, {}}, Role::scalar);
  const ValueId table = graph.add_input("table", bf16({5, 4}), Role::parameter);
  const ValueId once = graph.add_input("once", bf16({4, 4}), Role::parameter);
  const ValueId bias = graph.add_input("bias", bf16({4}), Role::parameter);
  const ValueId twice = graph.add_input("twice", bf16({4, 4}), Role::parameter);
  ValueId x = embedding(graph, "embed", table, ids);
  x = linear(graph, "first", x, once, bias);
  x = linear(graph, "second", linear(graph, "middle", x, twice), twice);
  const ValueId loss = linear_cross_entropy(graph, "loss", x, {table}, targets, loss_scale);
  differentiate(graph, std::span(&loss, 1), GradientStorage::rounded_products);
  const auto dtype_of_gradient = [&](const char* name) {
    return graph.type(graph.find_input(std::string("grad.") + name)).dtype;
  };
  EXPECT_EQ(dtype_of_gradient("once"), DType::bf16);
  for (const char* name : {"table", "bias", "twice"}) EXPECT_EQ(dtype_of_gradient(name), DType::f32) << name;
}

// Two predictions from the same state: both losses are read and differentiated as their sum.
TEST_F(Differentiate, SeveralLossesAddUp) {
  const auto build = [&](bool first, bool second) {
    Graph graph;
    const ValueId targets = graph.add_input("targets", {DType::i32, {3}}, Role::batch);
    const ValueId one = graph.add_input("one", f64({}), Role::scalar);
    const ValueId x = graph.add_input("x", f64({3, 4}), Role::parameter);
    const ValueId head = graph.add_input("head", f64({5, 4}), Role::parameter);
    std::vector<ValueId> losses;
    if (first) losses.push_back(linear_cross_entropy(graph, "fused", x, {head}, targets, one));
    if (second) losses.push_back(softmax_cross_entropy(graph, "plain", x, targets, one));
    graph.mark_output("loss", differentiate(graph, losses).loss);
    auto executor = make(std::move(graph));
    Doubles values;
    for (int i = 0; i < 20; ++i) values.push_back(0.1 * ((i * 7) % 11) - 0.5);
    executor->write<double>("head", values);
    values.resize(12);
    executor->write<double>("x", values);
    executor->write<std::int32_t>("targets", std::vector<std::int32_t>{1, -1, 3});
    executor->write<double>("one", Doubles{1.0});
    step(*executor);
    return executor;
  };
  const auto both = build(true, true), fused = build(true, false), plain = build(false, true);
  EXPECT_NEAR(read(both->output("loss"))[0], read(fused->output("loss"))[0] + read(plain->output("loss"))[0],
              1e-15);
  const Doubles sum = read(both->input("grad.x")), a = read(fused->input("grad.x")),
                b = read(plain->input("grad.x"));
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], a[i] + b[i], 1e-15);
  EXPECT_EQ(read(both->input("grad.head")), read(fused->input("grad.head")));
}

TEST_F(Differentiate, MicroBatchesAddUpInTheAccumulators) {
  Graph graph;
  const ValueId x = graph.add_input("x", f64({2, 3}), Role::batch);
  const ValueId weight = graph.add_input("weight", f64({1, 3}), Role::parameter);
  const ValueId y = linear(graph, "y", x, weight);
  const GradientSeed seed{y, graph.add_input("dy", f64({2, 1}), Role::batch)};
  const Gradients gradients = differentiate(graph, std::span(&seed, 1), {});
  ASSERT_EQ(gradients.parameters.size(), 1u);
  EXPECT_EQ(graph.value(gradients.parameters[0].accumulator).name, "grad.weight");
  EXPECT_EQ(graph.value(gradients.parameters[0].accumulator).role, Role::gradient);
  auto executor = make(std::move(graph));
  executor->write<double>("x", Doubles{1, 2, 3, 10, 20, 30});
  executor->write<double>("dy", Doubles{1, 1});
  step(*executor);
  EXPECT_EQ(read(executor->input("grad.weight")), (Doubles{11, 22, 33}));
  executor->write<double>("dy", Doubles{2, 0});
  step(*executor);
  EXPECT_EQ(read(executor->input("grad.weight")), (Doubles{13, 26, 39}));
}

// A weight that is computed from a parameter: its accumulator starts from zeros in every micro-batch,
// and the sum over micro-batches happens in the parameter's.
TEST_F(Differentiate, ComputedWeightPassesItsGradientOn) {
  Graph graph;
  const ValueId x = graph.add_input("x", f64({1, 2}), Role::batch);
  const ValueId raw = graph.add_input("raw", f64({1, 2}), Role::parameter);
  const ValueId weight = scale(graph, "weight", raw, 3.0);
  const ValueId y = add(graph, "y", linear(graph, "first", x, weight), linear(graph, "second", x, weight));
  const GradientSeed seed{y, graph.add_input("dy", f64({1, 1}), Role::batch)};
  const Gradients gradients = differentiate(graph, std::span(&seed, 1), std::span(&weight, 1));
  ASSERT_EQ(gradients.parameters.size(), 1u);
  graph.mark_output("d_weight", gradients.wanted[0]);
  auto executor = make(std::move(graph));
  executor->write<double>("x", Doubles{5, 7});
  executor->write<double>("dy", Doubles{1});
  for (int micro_batch = 1; micro_batch <= 2; ++micro_batch) {
    step(*executor);
    EXPECT_EQ(read(executor->output("d_weight")), (Doubles{10, 14}));
    EXPECT_EQ(read(executor->input("grad.raw")), (Doubles{30.0 * micro_batch, 42.0 * micro_batch}));
  }
}

// Ops that pass gradients as values, not through accumulators, must reach a parameter as well.
TEST_F(Differentiate, ParameterAsAnOrdinaryOperand) {
  Graph graph;
  const ValueId x = graph.add_input("x", f64({2}), Role::batch);
  const ValueId gain = graph.add_input("gain", f64({2}), Role::parameter);
  const ValueId y = mul(graph, "y", gain, mul(graph, "product", x, gain));
  const GradientSeed seed{y, graph.add_input("dy", f64({2}), Role::batch)};
  const Gradients gradients = differentiate(graph, std::span(&seed, 1), {});
  ASSERT_EQ(gradients.parameters.size(), 1u);
  auto executor = make(std::move(graph));
  executor->write<double>("x", Doubles{3, 5});
  executor->write<double>("gain", Doubles{2, -1});
  executor->write<double>("dy", Doubles{1, 10});
  step(*executor);
  EXPECT_EQ(read(executor->input("grad.gain")), (Doubles{12, -100}));  // 2 gain x dy
}

// An input read both as an activation and as a bias, and a wanted value that no parameter leads to.
TEST_F(Differentiate, WantedValuesGetTheirWholeGradient) {
  Graph graph;
  const ValueId x = graph.add_input("x", f64({2}), Role::batch);
  const ValueId z = graph.add_input("z", f64({3, 2}), Role::batch);
  const ValueId h = scale(graph, "h", z, 1.0);
  const ValueId y = add(graph, "y", h, x);  // x as a bias
  const ValueId w = scale(graph, "w", x, 7.0);
  const GradientSeed seeds[] = {{y, graph.add_input("dy", f64({3, 2}), Role::batch)},
                                {w, graph.add_input("dw", f64({2}), Role::batch)}};
  const ValueId wanted[] = {x, h};
  const Gradients gradients = differentiate(graph, seeds, wanted);
  ASSERT_NE(gradients.wanted[1], kNoValue);
  graph.mark_output("dx", gradients.wanted[0]);
  graph.mark_output("dh", gradients.wanted[1]);
  auto executor = make(std::move(graph));
  executor->write<double>("dy", Doubles{1, 2, 3, 4, 5, 6});
  executor->write<double>("dw", Doubles{100, 1000});
  step(*executor);
  EXPECT_EQ(read(executor->output("dx")), (Doubles{709, 7012}));
  EXPECT_EQ(read(executor->output("dh")), (Doubles{1, 2, 3, 4, 5, 6}));
}

TEST_F(Differentiate, ValueThatNoGradientReachesHasNone) {
  Graph graph;
  const ValueId x = graph.add_input("x", f64({2}), Role::batch);
  const ValueId unused = graph.add_input("unused", f64({2}), Role::parameter);
  const ValueId y = scale(graph, "y", x, 2.0);
  scale(graph, "elsewhere", unused, 2.0);
  const GradientSeed seed{y, graph.add_input("dy", f64({2}), Role::batch)};
  const ValueId wanted[] = {x, unused};
  const Gradients gradients = differentiate(graph, std::span(&seed, 1), wanted);
  EXPECT_NE(gradients.wanted[0], kNoValue);
  EXPECT_EQ(gradients.wanted[1], kNoValue);
  EXPECT_TRUE(gradients.parameters.empty());
}

TEST_F(Differentiate, RefusesALossThatIsNoScalar) {
  Graph graph;
  const ValueId x = graph.add_input("x", f64({2}), Role::parameter);
  const ValueId y = scale(graph, "y", x, 2.0);
  EXPECT_EQ(complaint([&] { differentiate(graph, y); }),
            "loss y has shape [2], expected the scalar output of a node");
  const ValueId scalar = graph.add_input("scalar", f64({}), Role::parameter);
  EXPECT_EQ(complaint([&] { differentiate(graph, scalar); }),
            "loss scalar has shape [], expected the scalar output of a node");
}

TEST_F(Differentiate, RefusesWhatWouldGiveAWrongGradientInSilence) {
  Graph graph;
  const ValueId x = graph.add_input("x", f64({2, 3}), Role::parameter);
  const ValueId targets = graph.add_input("targets", {DType::i32, {2}}, Role::batch);
  const ValueId one = graph.add_input("one", f64({}), Role::scalar);
  const ValueId loss = softmax_cross_entropy(graph, "loss", x, targets, one);
  const ValueId doubled = scale(graph, "doubled", loss, 2.0);
  // A loss's rule starts from 1 and cannot be continued.
  EXPECT_EQ(complaint([&] {
              Graph copy = graph;
              differentiate(copy, doubled);
            }),
            "loss doubled comes from op scale, expected a loss op");
  EXPECT_EQ(complaint([&] {
              Graph copy = graph;
              const GradientSeed seed{doubled, copy.add_input("dy", f64({}), Role::scalar)};
              differentiate(copy, std::span(&seed, 1), {});
            }),
            "node loss: op softmax_cross_entropy has no rule for a gradient that flows into its output 0");
  // The statistics of a norm serve its gradient alone.
  EXPECT_EQ(complaint([&] {
              Graph copy = graph;
              const ValueId weight = copy.add_input("weight", f64({3}), Role::parameter);
              const ValueId y = rms_norm(copy, "norm", x, weight, 1e-5);
              const ValueId statistics = copy.node(copy.value(y).producer).outputs[1];
              const GradientSeed seed{statistics, copy.add_input("dy", f64({2}), Role::batch)};
              differentiate(copy, std::span(&seed, 1), {});
            }),
            "node norm: op rms_norm has no rule for a gradient that flows into its output 1");
  // A rotary table cannot be learned.
  EXPECT_EQ(complaint([&] {
              Graph copy = graph;
              const ValueId qkv = copy.add_input("qkv", f64({1, 2, 6}), Role::batch);
              const ValueId table = copy.add_input("table", f64({2, 1, 2}), Role::parameter);
              const ValueId y = rope(copy, "rope", qkv, table, {1, 1, 2});
              const GradientSeed seed{y, copy.add_input("dy", f64({1, 2, 6}), Role::batch)};
              differentiate(copy, std::span(&seed, 1), {});
            }),
            "node rope: op rope has no rule for the gradient of its input table");
}

TEST_F(Differentiate, NamesAnOpWithoutARule) {
  Graph graph;
  const ValueId x = graph.add_input("x", f64({2}), Role::parameter);
  const ValueId y = sum_squares(graph, "squares", x);
  const GradientSeed seed{y, graph.add_input("dy", f64({}), Role::scalar)};
  EXPECT_EQ(complaint([&] { differentiate(graph, std::span(&seed, 1), {}); }),
            "node squares: op sum_squares has no gradient rule");
}

}  // namespace
}  // namespace tessera
