// Layers: an op together with the parameters it owns, named "<name>.weight" and "<name>.bias".
#pragma once

#include "tessera/nn/model_builder.h"

namespace tessera {

struct LinearOptions {
  bool bias = false;
  double init_std = 0.02;
};

// x[..., K] -> [..., out_features]
ValueId linear_layer(ModelBuilder& builder, const std::string& name, ValueId x, std::int64_t out_features,
                     LinearOptions options);
ValueId rms_norm_layer(ModelBuilder& builder, const std::string& name, ValueId x, double eps);
ValueId layer_norm_layer(ModelBuilder& builder, const std::string& name, ValueId x, double eps);

}  // namespace tessera
