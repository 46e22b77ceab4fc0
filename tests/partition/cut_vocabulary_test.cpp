// A loss whose vocabulary is cut: what one rank has computed wrong must show in every rank's loss.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "partition/node_run.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/comm/local/local_world.h"
#include "tessera/ops/cross_entropy.h"

namespace tessera {
namespace {

// One row of two columns, four words, the target is word 0; the third word's weights begin with `number`.
double loss_of_two_ranks(double number) {
  const Values weight = {1, 0, 0, 1, number, 0.25, 0.5, -0.25};
  Graph graph;
  std::vector<ValueId> ids;
  for (const ValueType& type : {ValueType{DType::f32, {1, 2}}, ValueType{DType::f32, {2, 2}},
                                ValueType{DType::i32, {1}}, ValueType{DType::f32, Shape{}}}) {
    ids.push_back(graph.add_input("in" + std::to_string(ids.size()), type, Role::batch));
  }
  emit(graph, Op::linear_cross_entropy, Phase::forward, "node",
       LinearCrossEntropyAttrs{.chunk_rows = 1, .rows = 1, .vocabulary = {true, Axis::tp, 4, 2}}, ids);
  std::vector<double> losses(2);
  run_local_ranks(2, [&](Communicator& world) {
    const RankGroups ranks(world, {.tp = 2});
    const auto device = make_cpu_device(1);
    const auto first = weight.begin() + 4 * world.rank();
    losses[static_cast<std::size_t>(world.rank())] =
        run_node(*device, graph, graph.node(0), {{1, 1}, Values(first, first + 4), {0}, {1}}, &ranks)[0][0];
  });
  EXPECT_TRUE(losses[0] == losses[1] || (std::isnan(losses[0]) && std::isnan(losses[1])));
  return losses[0];
}

TEST(CutVocabulary, NumbersThatAreNoneAreInTheLoss) {
  const double sum = std::exp(1) + std::exp(1) + std::exp(0.75) + std::exp(0.25);
  EXPECT_NEAR(loss_of_two_ranks(0.5), std::log(sum) - 1, 1e-6);
  EXPECT_TRUE(std::isnan(loss_of_two_ranks(std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace tessera
