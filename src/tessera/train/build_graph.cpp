#include "tessera/train/build_graph.h"

#include <algorithm>

#include "tessera/ops/cross_entropy.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/op_def.h"
#include "tessera/ops/slice.h"
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

struct Losses {
  std::vector<ValueId> values;       // one per prediction
  std::vector<std::string> targets;  // likewise
};

// The forward graph up to the losses.
Losses build_losses(const Model& model, ModelBuilder& builder, BatchShape shape) {
  Graph& graph = builder.graph();
  const ValueType scalar{accumulate_dtype(builder.dtype()), Shape{}};
  Losses losses;
  for (const Prediction& p : model.build(builder, add_ids(model, builder, shape))) {
    Shape rows;  // all dims but the last
    for (int d = 0; d + 1 < graph.type(p.hidden).shape.rank(); ++d)
      rows.push_back(graph.type(p.hidden).shape[d]);
    const ValueId targets = graph.add_input(p.targets, {DType::i32, rows}, Role::batch);
    const ValueId loss_scale =
        graph.add_input(name_for_targets(kLossScaleInput, p.targets), scalar, Role::scalar);
    losses.values.push_back(linear_cross_entropy(graph, name_for_targets("loss", p.targets), p.hidden,
                                                 {p.weight, p.bias, p.words}, targets, loss_scale));
    losses.targets.push_back(p.targets);
  }
  return losses;
}

// Forward graphs that are not differentiated.
BuiltGraph finish(ModelBuilder& builder, std::vector<std::string> targets = {}) {
  FoldedMasks folded = fold_constant_masks(builder.graph());
  fold_constants(folded.graph);
  return {std::move(folded.graph), builder.parameters(), std::move(folded.names), std::move(targets)};
}

// Who updates and saves weights goes by their gradients.
void check_all_are_trained(const Graph& graph, const std::vector<Parameter>& parameters,
                           const std::vector<ParameterGradient>& gradients) {
  for (const Parameter& p : parameters) {
    const bool trained = std::ranges::any_of(
        gradients, [&](const ParameterGradient& g) { return graph.value(g.parameter).name == p.name; });
    TS_CHECK(
        trained,
        "parameter {} {}: no prediction depends on it, so nothing would train it; expected a model whose "
        "parameters all lead to one",
        p.name, p.type.text());
  }
}

void mark_logits(Graph& graph, const Prediction& p) {
  const std::string name = name_for_targets(kLogitsOutput, p.targets);
  ValueId logits = linear(graph, name, p.hidden, p.weight, p.bias);
  if (p.words > 0) logits = slice(graph, name + ".words", logits, 0, p.words);
  graph.mark_output(name, logits);
}

}  // namespace

std::string name_for_targets(std::string_view name, std::string_view targets) {
  return targets == kTargetsInput ? std::string(name) : fmt::format("{}.{}", name, targets);
}

std::string BuiltGraph::folded_text() const {
  const std::size_t count = folded_attentions.size();
  return count == 0 ? "" : fmt::format("{} attention{} with a constant mask", count, count == 1 ? "" : "s");
}

BuiltGraph build_training_graph(const Model& model, const TrainingGraphOptions& options) {
  ModelBuilder builder(options.dtype, /*training=*/true);
  Losses losses = build_losses(model, builder, options.shape);
  FoldedMasks folded = fold_constant_masks(builder.graph());
  Graph& graph = folded.graph;
  for (ValueId& loss : losses.values) loss = folded.at(loss);
  const Gradients gradients = differentiate(graph, losses.values, options.gradients);
  check_all_are_trained(graph, builder.parameters(), gradients.parameters);
  graph.mark_output(std::string(kLossOutput), gradients.loss);
  append_optimizer(graph, gradients.parameters, options.optimizer);
  fold_constants(graph);
  return {apply_recompute(graph, options.recompute), builder.parameters(), std::move(folded.names),
          std::move(losses.targets)};
}

BuiltGraph build_loss_graph(const Model& model, BatchShape shape, DType dtype) {
  ModelBuilder builder(dtype, /*training=*/false);
  Losses losses = build_losses(model, builder, shape);
  for (std::size_t i = 0; i < losses.values.size(); ++i)
    builder.graph().mark_output(name_for_targets(kLossOutput, losses.targets[i]), losses.values[i]);
  return finish(builder, std::move(losses.targets));
}

BuiltGraph build_logits_graph(const Model& model, BatchShape shape, DType dtype) {
  ModelBuilder builder(dtype, /*training=*/false);
  for (const Prediction& p : model.build(builder, add_ids(model, builder, shape))) {
    mark_logits(builder.graph(), p);
  }
  return finish(builder);
}

BuiltGraph build_generation_graph(const Model& model, const GenerationShape& shape, DType dtype) {
  ModelBuilder builder(dtype, /*training=*/false, shape.positions);
  const std::vector<Prediction> predictions =
      model.build(builder, add_ids(model, builder, {1, shape.tokens}));
  // The tokens come first.
  if (shape.logits) mark_logits(builder.graph(), predictions[0]);
  BuiltGraph built = finish(builder);
  const bool cached = std::ranges::any_of(built.graph.nodes(),
                                          [](const Node& node) { return node.op == Op::cached_attention; });
  TS_CHECK(cached && built.folded_attentions.empty(),
           "this model cannot continue texts: its attention is not nn/layers.h's attention_layer, which has "
           "caches");
  return built;
}

double training_flops(const Model& model, BatchShape shape) {
  const BuiltGraph built = build_logits_graph(model, shape, DType::f32);
  double forward = 0;
  for (const Node& node : built.graph.nodes()) {
    if (node.op == Op::linear || node.op == Op::attention) forward += node_cost(built.graph, node).flops;
  }
  return 3 * forward;
}

}  // namespace tessera
