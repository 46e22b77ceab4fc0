// The weights that a new run starts with: those of `model.weights`, or else drawn.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "tessera/train/run_config.h"
#include "tessera/train/weights.h"

namespace tessera {

// Refuses weights that are not there, also of a run that has saved none: before all that takes long.
void check_start_weights(const ModelKeys& model);
// Refuses weights of a model that computes something else. Says where they are from; collective.
void start_weights(const RunConfig& config, const Model& model, const WeightStore& store,
                   std::span<const Parameter> parameters,
                   const std::function<void(const std::string&)>& message);

}  // namespace tessera
