// The update program: global norm, clipping and an optimizer's step, appended to a differentiated graph. The
// optimizer knows no rank: how its state lies on a mesh, ZeRO-1 among others, is a matter of placements.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/ops/optimizer_ops.h"

namespace tessera {

enum class OptimizerKind : std::uint8_t {
  adamw,  // Loshchilov and Hutter (2019); decay apart from the gradient
  lamb,   // You et al. (2020): Adam's direction and decay, scaled by |weight| / |direction|
  sgd,    // with momentum; decay added to the gradient
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  AdamWForm form = AdamWForm::torch;  // adamw
  double weight_decay = 0.1;
  bool decay_1d = false;              // also decay biases and norm weights; lamb scales only what may decay
  std::vector<std::string> no_decay;  // parameters with one of these in their name do not decay
  double clip_norm = 1.0;             // 0: off
  double momentum = 0.9;              // sgd
  bool trust_clip = true;             // lamb: |weight| / |direction| is at most 1
  // Of the moments and of the weights that are updated. A bf16 parameter with fp32 state is the rounding of
  // an fp32 weight, whose low half is state too; with bf16 state it is all there is, and adamw rounds weight
  // and moments stochastically.
  DType state_dtype = DType::f32;
  bool parameter_norm = false;  // also put out the global norm of the weights
};

inline constexpr std::string_view kLearningRateInput = "learning_rate";     // scalar
inline constexpr std::string_view kStepInput = "step";                      // i32 scalar, from 1
inline constexpr std::string_view kGradNormOutput = "grad_norm";            // before clipping
inline constexpr std::string_view kParameterNormOutput = "parameter_norm";  // before the update; if asked for

// The state input that holds the low halves of a bf16 parameter's fp32 weight, if it has any.
std::string low_halves_name(const std::string& parameter);

// State inputs are named "<what>.<parameter>": moment1 and moment2, or momentum; and low_halves_name().
void append_optimizer(Graph& graph, std::span<const ParameterGradient> parameters,
                      const OptimizerOptions& options);

}  // namespace tessera
