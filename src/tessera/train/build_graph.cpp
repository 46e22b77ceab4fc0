#include "tessera/train/build_graph.h"

#include "tessera/autodiff/differentiate.h"
#include "tessera/ops/cross_entropy.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/op_def.h"
#include "tessera/plan/fold_constant_masks.h"
#include "tessera/plan/fold_constants.h"

namespace tessera {
namespace {

ValueId add_ids(const Model& model, ModelBuilder& builder, BatchShape shape) {
  TS_CHECK(shape.seq_len <= model.max_positions(), "train.seq_len is {}, but the model has only {} positions",
           shape.seq_len, model.max_positions());
  return builder.graph().add_input(std::string(kIdsInput), {DType::i32, Shape{shape.batch, shape.seq_len}},
                                   Role::batch);
}

// The forward graph up to the loss; the value is the loss.
ValueId build_loss(const Model& model, ModelBuilder& builder, BatchShape shape) {
  Graph& graph = builder.graph();
  const ValueId ids = add_ids(model, builder, shape);
  const ValueId targets = graph.add_input(std::string(kTargetsInput), graph.type(ids), Role::batch);
  const ValueId loss_scale = graph.add_input(std::string(kLossScaleInput),
                                             {accumulate_dtype(builder.dtype()), Shape{}}, Role::scalar);
  const CausalOutputs out = model.build(builder, ids);
  return linear_cross_entropy(graph, "loss", out.hidden, out.head_weight, targets, loss_scale);
}

// Forward graphs that are not differentiated.
BuiltGraph finish(ModelBuilder& builder) {
  FoldedMasks folded = fold_constant_masks(builder.graph());
  fold_constants(folded.graph);
  return {std::move(folded.graph), builder.parameters(), std::move(folded.names)};
}

}  // namespace

std::string BuiltGraph::folded_text() const {
  const std::size_t count = folded_attentions.size();
  return count == 0 ? "" : fmt::format("{} attention{} with a constant mask", count, count == 1 ? "" : "s");
}

BuiltGraph build_training_graph(const Model& model, const TrainingGraphOptions& options) {
  ModelBuilder builder(options.dtype, /*training=*/true);
  const ValueId forward_loss = build_loss(model, builder, options.shape);
  FoldedMasks folded = fold_constant_masks(builder.graph());
  Graph& graph = folded.graph;
  const Gradients gradients = differentiate(graph, folded.at(forward_loss));
  graph.mark_output(std::string(kLossOutput), gradients.loss);
  append_optimizer(graph, gradients.parameters, options.optimizer);
  fold_constants(graph);
  return {apply_recompute(graph, options.recompute), builder.parameters(), std::move(folded.names)};
}

BuiltGraph build_loss_graph(const Model& model, BatchShape shape, DType dtype) {
  ModelBuilder builder(dtype, /*training=*/false);
  builder.graph().mark_output(std::string(kLossOutput), build_loss(model, builder, shape));
  return finish(builder);
}

BuiltGraph build_logits_graph(const Model& model, BatchShape shape, DType dtype) {
  ModelBuilder builder(dtype, /*training=*/false);
  const CausalOutputs out = model.build(builder, add_ids(model, builder, shape));
  builder.graph().mark_output(std::string(kLogitsOutput),
                              linear(builder.graph(), "logits", out.hidden, out.head_weight));
  return finish(builder);
}

std::int64_t training_flops(const Model& model, BatchShape shape) {
  const BuiltGraph built = build_logits_graph(model, shape, DType::f32);
  std::int64_t forward = 0;
  for (const Node& node : built.graph.nodes()) {
    if (node.op == Op::linear || node.op == Op::attention) forward += node_cost(built.graph, node).flops;
  }
  return 3 * forward;
}

}  // namespace tessera
