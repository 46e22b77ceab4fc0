#include "tessera/nn/layers.h"

#include "tessera/ops/cached_attention.h"
#include "tessera/ops/layer_norm.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/rms_norm.h"

namespace tessera {
namespace {

ValueId continue_attention(ModelBuilder& builder, const std::string& name, ValueId qkv, AttentionAttrs attrs,
                           ValueId key_counts) {
  TS_CHECK(attrs.causal && key_counts == kNoValue, "{}: found {}, expected causal attention without padding",
           name, Attrs(attrs).text());
  attrs.dropout = 0;
  Graph& graph = builder.graph();
  const std::int64_t batch = graph.type(qkv).shape[0], positions = builder.num_positions(0);
  const ValueId keys = graph.add_input(
      name + ".keys", key_cache_type(builder.dtype(), batch, positions, attrs.heads), Role::cache);
  const ValueId values = graph.add_input(
      name + ".values", value_cache_type(builder.dtype(), batch, positions, attrs.heads), Role::cache);
  const CachedAttention now =
      cached_attention(graph, name, qkv, keys, values, builder.first_position(), attrs);
  graph.add_state_update(keys, now.keys);
  graph.add_state_update(values, now.values);
  return now.out;
}

}  // namespace

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
  if (builder.has_caches()) return continue_attention(builder, name, qkv, attrs, key_counts);
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
