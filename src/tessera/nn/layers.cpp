#include "tessera/nn/layers.h"

#include "tessera/ops/layer_norm.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/rms_norm.h"

namespace tessera {

ValueId linear_layer(ModelBuilder& builder, const std::string& name, ValueId x, std::int64_t out_features,
                     LinearOptions options) {
  const std::int64_t in_features = builder.graph().type(x).shape[-1];
  const ValueId weight =
      builder.parameter(name + ".weight", Shape{out_features, in_features}, normal_init(options.init_std));
  const ValueId bias =
      options.bias ? builder.parameter(name + ".bias", Shape{out_features}, constant_init(0)) : kNoValue;
  return linear(builder.graph(), name, x, weight, bias);
}

ValueId attention_layer(ModelBuilder& builder, const std::string& name, ValueId qkv, AttentionAttrs attrs,
                        ValueId key_counts) {
  if (!builder.drops(attrs.dropout)) {
    attrs.dropout = 0;
    return attention(builder.graph(), name, qkv, attrs, key_counts);
  }
  attrs.stream = builder.next_dropout();
  return attention(builder.graph(), name, qkv, attrs, key_counts, builder.dropout_key());
}

ValueId rms_norm_layer(ModelBuilder& builder, const std::string& name, ValueId x, double eps) {
  const std::int64_t width = builder.graph().type(x).shape[-1];
  const ValueId weight = builder.parameter(name + ".weight", Shape{width}, constant_init(1));
  return rms_norm(builder.graph(), name, x, weight, eps);
}

ValueId layer_norm_layer(ModelBuilder& builder, const std::string& name, ValueId x, double eps) {
  const std::int64_t width = builder.graph().type(x).shape[-1];
  const ValueId weight = builder.parameter(name + ".weight", Shape{width}, constant_init(1));
  const ValueId bias = builder.parameter(name + ".bias", Shape{width}, constant_init(0));
  return layer_norm(builder.graph(), name, x, weight, bias, eps);
}

}  // namespace tessera
