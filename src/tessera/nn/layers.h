// Layers: an op together with what the builder has for it: the parameters it owns, named "<name>.weight" and
// "<name>.bias", dropout, or a cache.
#pragma once

#include "tessera/nn/model_builder.h"
#include "tessera/ops/attention.h"

namespace tessera {

struct LinearOptions {
  bool bias = false;
  double init_std = 0.02;
};

// x[..., K] -> [..., out_features]
ValueId linear_layer(ModelBuilder& builder, const std::string& name, ValueId x, std::int64_t out_features,
                     LinearOptions options);
ValueId rms_norm_layer(ModelBuilder& builder, const std::string& name, ValueId x, double eps);
// attrs.dropout counts only while training. With caches, causal attention alone can be built.
ValueId attention_layer(ModelBuilder& builder, const std::string& name, ValueId qkv, AttentionAttrs attrs,
                        ValueId key_counts = kNoValue);
ValueId layer_norm_layer(ModelBuilder& builder, const std::string& name, ValueId x, double eps);

}  // namespace tessera
