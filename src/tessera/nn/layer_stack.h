// stack_layers: a model's blocks, one after the other, their nodes marked with the layer they belong to: what
// pipelines are cut by and recompute goes by. Used by every family of models/.
#pragma once

#include <functional>

#include "tessera/nn/model_builder.h"

namespace tessera {

// A block of a layer: its name, "layers.<number>", and what comes in.
using BuildBlock = std::function<ValueId(const std::string& name, ValueId x)>;

// Nodes added afterwards come after the last layer.
ValueId stack_layers(ModelBuilder& builder, std::int64_t num_layers, const BuildBlock& block, ValueId x);

}  // namespace tessera
