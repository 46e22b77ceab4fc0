#include "tessera/ops/cached_attention.h"

#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

// qkv, keys, values, first -> out, keys, values
std::vector<ValueType> infer_cached_attention(const InferCall& call) {
  call.check_num_inputs(4, 4);
  call.check_floating(0);
  const auto& attrs = call.attrs.as<AttentionAttrs>();
  const HeadLayout& heads = attrs.heads;
  call.check(heads.valid(), "{} query heads cannot share {} key heads", heads.heads, heads.kv_heads);
  call.check(attrs.causal && !attrs.drops(), "found {}, expected causal attention without dropout",
             call.attrs.text());
  const Shape &qkv = call.shape(0), &keys = call.shape(1);
  call.check(qkv.rank() == 3 && qkv[2] == heads.qkv_columns(), "qkv has shape {}, expected [B, T, {}]",
             qkv.text(), heads.qkv_columns());
  call.check(keys.rank() == 4 && keys[3] % kCacheMultiple == 0,
             "cache of keys has shape {}, expected [B, KV, head_dim, a multiple of {}]", keys.text(),
             kCacheMultiple);
  const ValueType wanted_keys = key_cache_type(call.dtype(0), qkv[0], keys[3], heads);
  const ValueType wanted_values = value_cache_type(call.dtype(0), qkv[0], keys[3], heads);
  call.check(call.inputs[1] == wanted_keys && call.inputs[2] == wanted_values,
             "caches are {} and {}, expected {} and {}", call.inputs[1].text(), call.inputs[2].text(),
             wanted_keys.text(), wanted_values.text());
  call.check_dtype(3, DType::i32);
  call.check_shape(3, Shape{1});
  return {{call.dtype(0), Shape{qkv[0], qkv[1], heads.out_columns()}}, call.inputs[1], call.inputs[2]};
}

// As if the cache were full.
Cost cost_cached_attention(const Graph& graph, const Node& node) {
  const HeadLayout& heads = node.attrs.as<AttentionAttrs>().heads;
  const Shape &qkv = graph.type(node.inputs[0]).shape, &keys = graph.type(node.inputs[1]).shape;
  Cost cost = elementwise_cost(graph, node, 0);
  cost.flops = 4 * static_cast<double>(qkv[0] * qkv[1]) * static_cast<double>(heads.out_columns() * keys[3]);
  return cost;
}

}  // namespace

ValueType key_cache_type(DType dtype, std::int64_t batch, std::int64_t positions, const HeadLayout& heads) {
  return {dtype, Shape{batch, heads.kv_heads, heads.head_dim, positions}};
}
ValueType value_cache_type(DType dtype, std::int64_t batch, std::int64_t positions, const HeadLayout& heads) {
  return {dtype, Shape{batch, heads.kv_heads, positions, heads.head_dim}};
}

// No placement rule: one device generates.
OpDef cached_attention_def() {
  return {.infer = infer_cached_attention,
          .cost = cost_cached_attention,
          .in_place = {{1, 1, true}, {2, 2, true}}};
}

CachedAttention cached_attention(Graph& graph, std::string name, ValueId qkv, ValueId keys, ValueId values,
                                 ValueId first, const AttentionAttrs& attrs) {
  const std::vector<ValueId> outputs =
      emit(graph, Op::cached_attention, Phase::forward, std::move(name), attrs, {qkv, keys, values, first});
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace tessera
