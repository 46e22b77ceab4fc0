// The update program: global norm, clipping, AdamW; appended to a differentiated graph. The optimizer
// knows no rank: how its state lies on a mesh is a matter of placements.
#pragma once

#include <span>

#include "tessera/graph/graph.h"

namespace tessera {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_1d = false;   // also decay biases and norm weights
  double clip_norm = 1.0;  // 0: off
};

inline constexpr std::string_view kLearningRateInput = "learning_rate";  // scalar
inline constexpr std::string_view kStepInput = "step";                   // i32 scalar, from 1
inline constexpr std::string_view kGradNormOutput = "grad_norm";         // before clipping

// State inputs are named "moment1.<parameter>", "moment2.<parameter>" and, under bf16, "master.<parameter>".
void append_adamw(Graph& graph, std::span<const ParameterGradient> parameters, const AdamWOptions& options);

}  // namespace tessera
