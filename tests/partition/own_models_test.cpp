// Models whose weights are used as no built-in one uses them: several times, computed first, by nodes that
// nothing needs. One rank's training is the reference for all layouts.
#include <gtest/gtest.h>

#include "checkpoint/temporary_folder.h"
#include "partition/own_model.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/matmul.h"
#include "tessera/ops/rms_norm.h"
#include "tessera/partition/partition.h"

namespace tessera {
namespace {

const LinearOptions kWide{.bias = false, .init_std = 0.2}, kWithBias{.bias = true, .init_std = 0.2};

Graph training_graph_of(const OwnModel& model) {
  return build_training_graph(model, {.shape = {4, 12}}).graph;
}

ValueId half_block(ModelBuilder& b, const std::string& name, ValueId x, ValueId norm) {
  const ValueId h = rms_norm(b.graph(), name + ".norm", x, norm, 1e-5);
  const ValueId up = silu(b.graph(), name + ".silu", linear_layer(b, name + ".up", h, 64, kWide));
  return add(b.graph(), name + ".residual", linear_layer(b, name + ".down", up, kOwnWidth, kWithBias), x);
}

// Each use adds to the accumulator what a rank has seen: terms of a sum until the update, however often.
TEST(OwnModels, ANormsWeightUsedTwice) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [head, x] = embed(b, ids);
    const ValueId norm = b.parameter("shared_norm", {kOwnWidth}, constant_init(1));
    b.graph().set_layer(0);
    for (const char* name : {"first", "second"}) x = half_block(b, name, x, norm);
    b.graph().set_layer(1);
    return predict(b, x, head);
  });
  expect_layouts_agree(
      model, {mesh_of(1, 1, 2), mesh_of(1, 1, 2, true), mesh_of(1, 2, 2, true), mesh_of(1, 1, 3, true)});
}

// ALBERT: one set of weights for all layers.
TEST(OwnModels, LayersThatShareTheirWeights) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    const HeadLayout heads{6, 6, 4};
    auto [head, x] = embed(b, ids);
    Graph& graph = b.graph();
    const ValueId norm = b.parameter("attention_norm", {kOwnWidth}, constant_init(1));
    const ValueId qkv = b.parameter("qkv", {heads.qkv_columns(), kOwnWidth}, normal_init(0.2));
    const ValueId out = square(b, "out"), out_bias = b.parameter("bias", {kOwnWidth}, constant_init(0));
    graph.set_layer(0);
    for (const std::string name : {"a", "b", "c"}) {
      const ValueId h = linear(graph, name + ".qkv", rms_norm(graph, name + ".norm", x, norm, 1e-5), qkv);
      const ValueId mixed = attention(graph, name + ".attention", h, {heads, 0.5, true});
      x = add(graph, name + ".residual", linear(graph, name + ".out", mixed, out, out_bias), x);
    }
    graph.set_layer(1);
    return predict(b, x, head);
  });
  expect_layouts_agree(
      model, {mesh_of(1, 2, 1), mesh_of(1, 1, 2, true), mesh_of(1, 2, 2, true), mesh_of(1, 1, 3, true)});
}

// The accumulator holds terms of a sum, and the product's gradient is summed already: it counts on one rank.
TEST(OwnModels, AWeightThatIsReadAndAlsoMultipliedWithAnother) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [head, x] = embed(b, ids);
    Graph& graph = b.graph();
    const ValueId first = square(b, "first"), product = mul(graph, "product", first, square(b, "second"));
    graph.set_layer(0);
    x = add(graph, "sum1", linear(graph, "by_product", x, product), x);
    x = add(graph, "sum2", linear(graph, "by_first", x, first), x);
    graph.set_layer(1);
    return predict(b, x, head);
  });
  expect_layouts_agree(model,
                       {mesh_of(1, 2, 1), mesh_of(1, 1, 2), mesh_of(1, 1, 2, true), mesh_of(1, 2, 2, true)});
}

TEST(OwnModels, AVectorThatIsAddedAsItIsAndScaled) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [head, x] = embed(b, ids);
    Graph& graph = b.graph();
    const ValueId bias = b.parameter("bias", {kOwnWidth}, normal_init(0.3)),
                  twice = scale(graph, "twice", bias, 2.0);
    const ValueId norm = b.parameter("layer_norm", {kOwnWidth}, constant_init(1));
    graph.set_layer(0);
    x = half_block(b, "block", x, norm);
    graph.set_layer(1);
    x = add(graph, "plus_bias", tanh(graph, "tanh", add(graph, "plus_twice", x, twice)), bias);
    return predict(b, x, head);
  });
  expect_layouts_agree(model,
                       {mesh_of(1, 2, 1), mesh_of(1, 1, 2), mesh_of(1, 1, 2, true), mesh_of(1, 2, 2, true)});
}

// The head's gradient starts from zeros, of which dp ranks add up their terms.
TEST(OwnModels, AHeadThatIsComputed) {
  for (const bool factors : {false, true}) {
    SCOPED_TRACE(factors);
    const OwnModel model([&](ModelBuilder& b, ValueId ids) {
      auto [embedded, x] = embed(b, ids);
      Graph& graph = b.graph();
      graph.set_layer(0);
      x = half_block(b, "block", x, b.parameter("layer_norm", {kOwnWidth}, constant_init(1)));
      graph.set_layer(1);
      if (!factors) return predict(b, x, scale(graph, "head", embedded, 0.5));
      const ValueId tall = b.parameter("tall", {kOwnVocab, 8}, normal_init(0.3)),
                    wide = b.parameter("wide", {8, kOwnWidth}, normal_init(0.3));
      return predict(b, x, matmul(graph, "head", tall, wide));
    });
    expect_layouts_agree(
        model, {mesh_of(1, 2, 1), mesh_of(1, 4, 1), mesh_of(1, 1, 2, true), mesh_of(1, 2, 2, true)});
  }
}

// A rank's share of the work: nobody computes the whole batch for a head that is not a parameter.
TEST(OwnModels, AComputedHeadLeavesTheBatchCut) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [embedded, x] = embed(b, ids);
    b.graph().set_layer(0);
    x = half_block(b, "block", x, b.parameter("layer_norm", {kOwnWidth}, constant_init(1)));
    b.graph().set_layer(1);
    return predict(b, x, scale(b.graph(), "head", embedded, 0.5));
  });
  const Graph graph = partition(training_graph_of(model), {.mesh = {.dp = 2}}).graph;
  for (const Node& node : graph.nodes()) EXPECT_NE(node.op, Op::all_gather) << node.name;
}

// 6 query heads with 2 of keys on 6 ranks: threes share one; 12 with 3: twos do.
TEST(OwnModels, LayersWithDifferentSharesOfHeads) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [head, x] = embed(b, ids);
    Graph& graph = b.graph();
    std::int32_t layer = 0;
    for (const HeadLayout heads : {HeadLayout{6, 2, 4}, HeadLayout{12, 3, 4}}) {
      graph.set_layer(layer);
      const std::string name = fmt::format("layers.{}", layer++);
      const ValueId h = rms_norm_layer(b, name + ".norm", x, 1e-5);
      const ValueId qkv = linear_layer(b, name + ".qkv", h, heads.qkv_columns(), kWide);
      const ValueId mixed = attention(graph, name + ".attention", qkv, {heads, 0.5, true});
      x = add(graph, name + ".residual", linear_layer(b, name + ".out", mixed, kOwnWidth, kWithBias), x);
    }
    graph.set_layer(layer);
    return predict(b, x, head);
  });
  expect_layouts_agree(model, {mesh_of(1, 1, 2), mesh_of(1, 1, 3), mesh_of(1, 1, 6), mesh_of(1, 2, 6, true)});
}

// Logits that nobody asks for read the embedding on the last stage: it lies on the first alone.
TEST(OwnModels, AReaderThatNothingNeedsDoesNotTieAWeight) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [embedded, x] = embed(b, ids);
    for (int layer = 0; layer < 2; ++layer) {
      b.graph().set_layer(layer);
      const std::string name = fmt::format("layers.{}", layer);
      x = half_block(b, name, x, b.parameter(name + ".norm", {kOwnWidth}, constant_init(1)));
    }
    b.graph().set_layer(2);
    linear(b.graph(), "logits", x, embedded);
    return predict(b, x, b.parameter("head", {kOwnVocab, kOwnWidth}, normal_init(0.3)));
  });
  expect_layouts_agree(model, {mesh_of(2, 1, 1), mesh_of(2, 2, 1), mesh_of(1, 1, 2)});
}

// Three stages, the middle one with nothing to learn.
TEST(OwnModels, AStageWithoutParameters) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [head, x] = embed(b, ids);
    for (int layer = 0; layer < 3; ++layer) {
      b.graph().set_layer(layer);
      const std::string name = fmt::format("layers.{}", layer);
      const ValueId y = layer == 1 ? tanh(b.graph(), name + ".tanh", x)
                                   : linear_layer(b, name + ".product", x, kOwnWidth, kWithBias);
      x = add(b.graph(), name + ".residual", y, x);
    }
    b.graph().set_layer(3);
    return predict(b, x, head);
  });
  Layout layout = mesh_of(3, 1, 1);
  layout.layers_per_stage = {1, 1, 1};
  expect_layouts_agree(model, {layout});
}

// Forward gathers it on the first stage, backward on the last, and both pass the middle.
TEST(OwnModels, AValueThatIsGatheredForthAndBack) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [head, first] = embed(b, ids);
    ValueId x = first;
    for (int layer = 0; layer < 3; ++layer) {
      b.graph().set_layer(layer);
      const std::string name = fmt::format("layers.{}", layer);
      x = half_block(b, name, x, b.parameter(name + ".norm", {kOwnWidth}, constant_init(1)));
      const ValueId up =
          silu(b.graph(), name + ".early_silu", linear_layer(b, name + ".early", first, 40, kWide));
      x = add(b.graph(), name + ".sum", linear_layer(b, name + ".late", up, kOwnWidth, kWithBias), x);
    }
    b.graph().set_layer(3);
    return predict(b, x, head);
  });
  Layout layout = mesh_of(3, 1, 2, true);
  layout.layers_per_stage = {1, 1, 1};
  expect_layouts_agree(model, {layout});
}

// What a dropout of the batch keeps is counted from the rank's first sequence; of a weight every dp rank
// would keep something else.
TEST(OwnModelsAreRefused, DropoutOfAWeightOnManyDpRanks) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [head, x] = embed(b, ids);
    b.graph().set_layer(0);
    const ValueId dropped = b.add_dropped("drop_connect", square(b, "weight"), kNoValue, 0.5);
    x = add(b.graph(), "residual", linear(b.graph(), "product", x, dropped), x);
    b.graph().set_layer(1);
    return predict(b, x, head);
  });
  const Graph whole = training_graph_of(model);
  expect_error([&] { partition(whole, {.mesh = {.dp = 2}}); }, {"drop_connect", "dp", "batch"});
  partition(whole, {.mesh = {.tp = 2}});
}

// The second projection reads heads that several ranks hold, and its input's gradient is a term on each.
TEST(OwnModelsAreRefused, SharedHeadsWhoseActivationsWouldHaveToBeSummed) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    const HeadLayout heads{6, 3, 4};
    auto [head, x] = embed(b, ids);
    Graph& graph = b.graph();
    graph.set_layer(0);
    const auto attend = [&](const std::string& name, ValueId from) {
      return attention(graph, name, linear_layer(b, name + ".qkv", from, heads.qkv_columns(), kWide),
                       {heads, 0.5, true});
    };
    const ValueId first = attend("first", x), second = attend("second", first);
    x = add(graph, "residual",
            linear_layer(b, "out", add(graph, "both", first, second), kOwnWidth, kWithBias), x);
    graph.set_layer(1);
    return predict(b, x, head);
  });
  const Graph whole = training_graph_of(model);
  expect_error([&] { partition(whole, {.mesh = {.tp = 2}}); }, {"second.qkv", "share", "parallel.tp"});
  partition(whole, {.mesh = {.tp = 3}});
}

TEST(OwnModelsAreRefused, GroupsOfZeroThatDoNotDivide) {
  const OwnModel model([](ModelBuilder& b, ValueId ids) {
    auto [head, x] = embed(b, ids);
    return predict(b, x, head);
  });
  expect_error(
      [&] { partition(training_graph_of(model), {.mesh = {.dp = 4, .zero1_group = 3}, .zero1 = true}); },
      {"zero1_group", "3", "4"});
}

}  // namespace
}  // namespace tessera
