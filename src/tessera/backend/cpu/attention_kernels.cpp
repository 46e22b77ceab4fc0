// attention and attention_grad as kernels of the graph: the op's attributes and views handed on to the
// functions of attention.h and attention_grad.h.
#include "tessera/backend/cpu/attention.h"
#include "tessera/backend/cpu/attention_grad.h"
#include "tessera/backend/cpu/kernel_workspace.h"
#include "tessera/ops/attention.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cpu {
namespace {

AttentionShape shape_of(const Shape& qkv, const AttentionAttrs& attrs) {
  return {.batch = qkv[0],
          .seq = qkv[1],
          .num_heads = attrs.heads.heads,
          .num_kv_heads = attrs.heads.kv_heads,
          .head_dim = attrs.heads.head_dim,
          .causal = attrs.causal,
          .scale = attrs.scale};
}

// With what the operands behind the first `required` say.
AttentionShape shape_of(const KernelCall& call, const Shape& qkv, std::size_t required) {
  const auto& attrs = call.attrs->as<AttentionAttrs>();
  const AttentionOptions options = attention_options(attrs, call.inputs.size(), required);
  AttentionShape shape = shape_of(qkv, attrs);
  if (options.key_counts != AttentionOptions::kNone)
    shape.key_counts = call.inputs[options.key_counts].as<std::int32_t>();
  if (options.dropout_key != AttentionOptions::kNone)
    shape.dropout_key = call.inputs[options.dropout_key].as<std::int32_t>();
  shape.dropout = attention_dropout(attrs, first_index(call, attrs.head_range, attrs.heads.heads),
                                    first_index(call, attrs.batch_range, qkv[0]));
  return shape;
}

}  // namespace

void attention(const KernelCall& call, Context& context) {
  const AttentionShape shape = shape_of(call, call.inputs[0].shape, 1);
  for_dtype(call.inputs[0].dtype, [&]<class T>(T) {
    attention<T>(context.pool, shape, call.inputs[0].as<T>(), call.outputs[0].as<T>(),
                 call.outputs[1].as<Accumulate<T>>(), call.workspace);
  });
}

void attention_grad(const KernelCall& call, Context& context) {
  const AttentionShape shape = shape_of(call, call.inputs[1].shape, 4);
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
