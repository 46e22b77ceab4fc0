#include "tessera/nn/model_builder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/nn/layers.h"

namespace tessera {
namespace {

const Parameter kMatrix{"layers.3.mlp.up.weight", {DType::f32, {37, 53}}, normal_init(0.5)};

std::vector<float> whole(const Parameter& parameter, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(parameter.type.shape.num_elems()));
  fill_initial_values(parameter, seed, 0, values);
  return values;
}

// What a rank that holds a part of a parameter does: the cut must not matter, odd begins included.
TEST(InitialValues, AreTheSameInOnePieceAndInMany) {
  const std::vector<float> wanted = whole(kMatrix, 7);
  for (std::size_t piece : {1u, 3u, 64u, 1000u}) {
    std::vector<float> found(wanted.size());
    for (std::size_t begin = 0; begin < found.size(); begin += piece) {
      const std::size_t size = std::min(piece, found.size() - begin);
      fill_initial_values(kMatrix, 7, static_cast<std::int64_t>(begin),
                          std::span(found).subspan(begin, size));
    }
    EXPECT_EQ(found, wanted) << "pieces of " << piece;
  }
}

TEST(InitialValues, DependOnSeedAndNameAloneAndNotOnTheShape) {
  const std::vector<float> values = whole(kMatrix, 7);
  EXPECT_EQ(whole({kMatrix.name, {DType::bf16, {53, 37}}, kMatrix.init}, 7), values);
  EXPECT_NE(whole(kMatrix, 8), values);
  EXPECT_NE(whole({"layers.4.mlp.up.weight", kMatrix.type, kMatrix.init}, 7), values);
}

TEST(InitialValues, AreNormalWithTheGivenDeviation) {
  const Parameter large{"w", {DType::f32, {400, 500}}, normal_init(0.5)};
  double sum = 0, squares = 0;
  const std::vector<float> values = whole(large, 1);
  for (float v : values) {
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0.0, 5 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.5, 5 * 0.5 / std::sqrt(2 * n));
}

TEST(InitialValues, OfAConstant) {
  EXPECT_EQ(whole({"b", {DType::f32, {3}}, constant_init(1)}, 7), (std::vector<float>{1, 1, 1}));
}

TEST(Layers, OwnTheirParameters) {
  ModelBuilder builder(DType::bf16, /*training=*/true);
  const ValueId x = builder.graph().add_input("x", {DType::bf16, {2, 4, 8}}, Role::batch);
  const ValueId y = linear_layer(builder, "up", x, 6, {.bias = true, .init_std = 0.1});
  EXPECT_EQ(builder.graph().type(y).text(), "bf16[2,4,6]");
  rms_norm_layer(builder, "rms", y, 1e-5);
  layer_norm_layer(builder, "ln", y, 1e-5);
  std::vector<std::string> found;
  for (const Parameter& p : builder.parameters()) {
    found.push_back(p.name + " " + p.type.text());
    EXPECT_EQ(builder.graph().value(builder.graph().find_input(p.name)).role, Role::parameter);
  }
  EXPECT_EQ(found, (std::vector<std::string>{"up.weight bf16[6,8]", "up.bias bf16[6]", "rms.weight bf16[6]",
                                             "ln.weight bf16[6]", "ln.bias bf16[6]"}));
}

TEST(ModelBuilder, DropsOnlyWhileTrainingAndNumbersTheDropouts) {
  for (bool training : {false, true}) {
    ModelBuilder builder(DType::f32, training);
    const ValueId x = builder.graph().add_input("x", {DType::f32, {2, 4}}, Role::batch);
    EXPECT_EQ(builder.add_dropped("never", x, kNoValue, 0.0), x);
    builder.add_dropped("a", builder.add_dropped("b", x, x, 0.1), x, 0.1);
    const Graph& graph = builder.graph();
    EXPECT_EQ(graph.node(0).op, training ? Op::dropout_add : Op::add);
    EXPECT_EQ(graph.find_input(kDropoutKeyInput) != kNoValue, training);
    if (!training) continue;
    EXPECT_EQ(graph.node(0).attrs.text(), "rate=0.1 stream=0");
    EXPECT_EQ(graph.node(1).attrs.text(), "rate=0.1 stream=1");
  }
}

}  // namespace
}  // namespace tessera
