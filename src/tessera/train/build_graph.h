// The graphs of a run, from a model written for one device: a training step (forward, backward,
// update), evaluation (the loss alone, or the logits) and generation (logits of a text that is continued).
// Steps 3 to 5 of the data's path.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/autodiff/differentiate.h"
#include "tessera/models/model.h"
#include "tessera/optim/optimizer_update.h"
#include "tessera/plan/recompute.h"

namespace tessera {

// The graphs' inputs and outputs by name.
inline constexpr std::string_view kIdsInput = "ids";               // i32[B, T]
inline constexpr std::string_view kLossScaleInput = "loss_scale";  // 1 / scored targets of the global batch
inline constexpr std::string_view kLossOutput = "loss";
inline constexpr std::string_view kLogitsOutput = "logits";  // [B, T, V]
// The same of a prediction by its targets: "loss_scale" and "logits" of the tokens, "logits.<targets>" of
// others.
std::string name_for_targets(std::string_view name, std::string_view targets);

struct BatchShape {
  std::int64_t batch = 1;
  std::int64_t seq_len = 1;
};

struct BuiltGraph {
  Graph graph;
  std::vector<Parameter> parameters;
  std::vector<std::string> folded_attentions;  // written out in the model, with a constant mask
  std::vector<std::string> targets;            // inputs that predictions are scored by

  // "2 attentions with a constant mask"; empty if there are none.
  std::string folded_text() const;
};

struct TrainingGraphOptions {
  BatchShape shape;  // of one micro-batch
  DType dtype = DType::f32;
  OptimizerOptions optimizer;
  GradientStorage gradients = GradientStorage::wide;
  Recompute recompute = {};
};

BuiltGraph build_training_graph(const Model& model, const TrainingGraphOptions& options);
// One output for each prediction: "loss" of the tokens, "loss.<targets>" of others.
BuiltGraph build_loss_graph(const Model& model, BatchShape shape, DType dtype);
BuiltGraph build_logits_graph(const Model& model, BatchShape shape, DType dtype);

// Tokens of a text that is continued, with caches of `positions` tokens (a multiple of kCacheMultiple).
// Without logits only the caches are filled: all of a prompt but its last token.
struct GenerationShape {
  std::int64_t tokens = 1;
  std::int64_t positions = 0;
  bool logits = true;
};
BuiltGraph build_generation_graph(const Model& model, const GenerationShape& shape, DType dtype);

// Flops of one training step's matrix products and attention per micro-batch, by the usual count:
// backward costs twice the forward, recomputed work is not counted.
double training_flops(const Model& model, BatchShape shape);

}  // namespace tessera
