// attention and attention_grad as kernels of the graph: the op's attributes and views handed on to the
// functions of attention.h and attention_grad.h.
#include "tessera/backend/cpu/attention.h"
#include "tessera/backend/cpu/attention_grad.h"
#include "tessera/backend/cpu/kernel_workspace.h"
#include "tessera/ops/attention.h"

namespace tessera::cpu {
namespace {

// `key_counts`: null if the node has none.
AttentionShape shape_of(const Shape& qkv, const AttentionAttrs& attrs,
                        const TensorView* key_counts = nullptr) {
  return {.batch = qkv[0],
          .seq = qkv[1],
          .num_heads = attrs.heads.heads,
          .num_kv_heads = attrs.heads.kv_heads,
          .head_dim = attrs.heads.head_dim,
          .causal = attrs.causal,
          .scale = attrs.scale,
          .key_counts = key_counts ? key_counts->as<std::int32_t>() : std::span<const std::int32_t>{}};
}

const TensorView* input_or_null(const KernelCall& call, std::size_t input) {
  return call.inputs.size() > input ? &call.inputs[input] : nullptr;
}

}  // namespace

void attention(const KernelCall& call, Context& context) {
  const AttentionShape shape =
      shape_of(call.inputs[0].shape, call.attrs->as<AttentionAttrs>(), input_or_null(call, 1));
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    attention<T>(context.pool, shape, call.inputs[0].as<T>(), call.outputs[0].as<T>(),
                 call.outputs[1].as<Accumulate<T>>(), call.workspace);
  });
}

void attention_grad(const KernelCall& call, Context& context) {
  const AttentionShape shape =
      shape_of(call.inputs[1].shape, call.attrs->as<AttentionAttrs>(), input_or_null(call, 4));
  for_dtype(call.inputs[1].dtype, [&]<class T>(T) {
    attention_grad<T>(context.pool, shape,
                      {.qkv = call.inputs[1].as<T>(),
                       .out = call.inputs[2].as<T>(),
                       .lse = call.inputs[3].as<Accumulate<T>>(),
                       .dout = call.inputs[0].as<T>(),
                       .dqkv = call.outputs[0].as<T>()},
                      call.workspace);
  });
}

std::int64_t attention_node_workspace_bytes(const Graph& graph, const Node& node, int num_threads) {
  const bool backward = node.op == Op::attention_grad;
  const ValueType& qkv = graph.type(node.inputs[backward ? 1 : 0]);
  const AttentionShape shape = shape_of(qkv.shape, node.attrs.as<AttentionAttrs>());
  return backward ? attention_grad_workspace_bytes(shape, qkv.dtype, num_threads)
                  : attention_workspace_bytes(shape, qkv.dtype, num_threads);
}

}  // namespace tessera::cpu
