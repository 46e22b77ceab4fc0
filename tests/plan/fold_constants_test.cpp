#include "tessera/plan/fold_constants.h"

#include <gtest/gtest.h>

#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_def.h"
#include "tessera/ops/softmax.h"
#include "tessera/ops/verify.h"

namespace tessera {
namespace {

TEST(FoldConstants, MovesWhatDependsOnConstantsAlone) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {2, 4, 4}}, Role::batch);
  const ValueId mask = causal_mask(graph, "mask", DType::f32, 4);  // 0
  const ValueId scaled = scale(graph, "scaled", mask, 2.0);        // 1
  const ValueId weights = softmax(graph, "weights", scaled);       // 2
  const ValueId y = add(graph, "y", x, weights);                   // 3
  const ValueType column{DType::f32, {4}};
  const ValueId zero = emit(graph, Op::zeros, Phase::backward, "zero", ZerosAttrs{column}, {})[0];  // 4
  emit(graph, Op::sum_to, Phase::backward, "sum", {}, {zero, y});                                   // 5
  fold_constants(graph);
  const Phase wanted[] = {Phase::init,    Phase::init,     Phase::init,
                          Phase::forward, Phase::backward, Phase::backward};
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    EXPECT_EQ(phase_name(graph.node(id).phase), phase_name(wanted[id])) << graph.node(id).name;
  }
  verify(graph);
}

// An accumulation that starts from zeros must start anew in every micro-batch.
TEST(FoldConstants, LeavesSumsOfConstantsThatGrowInPlace) {
  Graph graph;
  const ValueId mask = causal_mask(graph, "mask", DType::f32, 4);
  const ValueId zero = emit(graph, Op::zeros, Phase::backward, "zero", ZerosAttrs{{DType::f32, {4}}}, {})[0];
  emit(graph, Op::sum_to, Phase::backward, "sum", {}, {zero, mask});
  fold_constants(graph);
  EXPECT_EQ(phase_name(graph.node(2).phase), "backward");
}

}  // namespace
}  // namespace tessera
