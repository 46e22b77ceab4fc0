// attention and attention_grad as kernels of the graph: which version runs. bf16, the first that computes the
// shape: the kernels for Hopper; those that hold a whole head; if nothing is dropped cuDNN (its random
// numbers would be others than ours); tensor cores. Everything else: the plain kernels.
#include "tessera/backend/cuda/attention.h"

#include "tessera/backend/cuda/causal_attention.h"
#include "tessera/backend/cuda/cudnn_attention.h"
#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/ordered_attention_grad.h"
#include "tessera/backend/cuda/whole_head_attention.h"
#include "tessera/ops/attention.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cuda {
namespace {

// Of an op that has as many operands, `required` ones first; `integers` says where an input of integers lies.
template <class Integers>
AttentionShape shape_of(const Shape& qkv, const AttentionAttrs& attrs, std::size_t num_inputs,
                        std::size_t required, Integers&& integers) {
  TS_CHECK(attrs.heads.head_dim <= kPlainHeadDim,
           "[attention] heads of {} are not computed on cuda, expected up to {}", attrs.heads.head_dim,
           kPlainHeadDim);
  check_grid("attention", qkv[0], attrs.heads.heads);
  const AttentionOptions options = attention_options(attrs, num_inputs, required);
  return {.batch = static_cast<int>(qkv[0]),
          .seq = static_cast<int>(qkv[1]),
          .heads = static_cast<int>(attrs.heads.heads),
          .kv_heads = static_cast<int>(attrs.heads.kv_heads),
          .head_dim = static_cast<int>(attrs.heads.head_dim),
          .causal = attrs.causal,
          .scale = static_cast<float>(attrs.scale),
          .padded = options.key_counts != AttentionOptions::kNone,
          .key_counts = integers(options.key_counts),
          .dropout_key = integers(options.dropout_key)};
}

AttentionShape shape_of(const KernelCall& call, const Shape& qkv, std::size_t required) {
  const auto& attrs = call.attrs->as<AttentionAttrs>();
  AttentionShape shape = shape_of(qkv, attrs, call.inputs.size(), required, [&](std::size_t input) {
    return input == AttentionOptions::kNone ? nullptr
                                            : static_cast<const std::int32_t*>(call.inputs[input].data);
  });
  shape.dropout = attention_dropout(attrs, first_index(call, attrs.head_range, attrs.heads.heads),
                                    first_index(call, attrs.batch_range, qkv[0]));
  return shape;
}

// Before anything has an address, and for no rank in particular.
AttentionShape shape_of(const Node& node, const Shape& qkv, std::size_t required) {
  const auto& attrs = node.attrs.as<AttentionAttrs>();
  AttentionShape shape = shape_of(qkv, attrs, node.inputs.size(), required,
                                  [](std::size_t) -> const std::int32_t* { return nullptr; });
  shape.dropout = attention_dropout(attrs, 0, 0);
  return shape;
}

bool by_hopper_kernels(const AttentionShape& shape, DType dtype) {
  return dtype == DType::bf16 && suits_hopper_kernels(shape);
}
bool by_whole_heads(const AttentionShape& shape, DType dtype) {
  return dtype == DType::bf16 && suits_whole_head_kernels(shape);
}
bool by_cudnn(Context& context, const AttentionShape& shape, DType dtype) {
  return dtype == DType::bf16 && !shape.dropout.drops() && context.cudnn.workspace_bytes(shape) >= 0;
}
bool grad_by_cudnn(Context& context, const AttentionShape& shape, DType dtype) {
  return dtype == DType::bf16 && !shape.dropout.drops() && context.cudnn.grad_workspace_bytes(shape) >= 0;
}

AttentionGradOperands grad_operands(const KernelCall& call) {
  return {.dout = call.inputs[0].data,
          .qkv = call.inputs[1].data,
          .out = call.inputs[2].data,
          .lse = call.inputs[3].as<float>().data(),
          .dqkv = call.outputs[0].data,
          .delta = reinterpret_cast<float*>(call.workspace.data())};
}

bool by_tensor_cores(const AttentionShape& shape, DType dtype) {
  return dtype == DType::bf16 && shape.head_dim % 8 == 0 && shape.head_dim <= kTensorCoreHeadDim;
}

}  // namespace

void attention(const KernelCall& call, Context& context) {
  const DType dtype = call.inputs[0].dtype;
  const AttentionShape shape = shape_of(call, call.inputs[0].shape, 1);
  const AttentionOperands operands{call.inputs[0].data, call.outputs[0].data,
                                   call.outputs[1].as<float>().data()};
  if (by_hopper_kernels(shape, dtype)) {
    return causal_attention(context, shape, operands, call.workspace);
  }
  if (by_whole_heads(shape, dtype)) return whole_head_attention(context, shape, operands);
  if (by_cudnn(context, shape, dtype)) {
    return context.cudnn.run(shape, operands, call.workspace, context.stream);
  }
  if (by_tensor_cores(shape, dtype)) return tensor_core_attention(context, shape, operands);
  plain_attention(context, shape, dtype, operands);
}

std::int64_t attention_workspace_bytes(const Graph& graph, const Node& node, Context& context) {
  const ValueType& qkv = graph.type(node.inputs[0]);
  const AttentionShape shape = shape_of(node, qkv.shape, 1);
  if (by_hopper_kernels(shape, qkv.dtype)) return causal_attention_bytes(shape);
  if (by_whole_heads(shape, qkv.dtype)) return 0;
  return by_cudnn(context, shape, qkv.dtype) ? context.cudnn.workspace_bytes(shape) : 0;
}

std::int64_t attention_grad_workspace_bytes(const Graph& graph, const Node& node, Context& context) {
  const ValueType& qkv = graph.type(node.inputs[1]);
  const AttentionShape shape = shape_of(node, qkv.shape, 4);
  if (by_hopper_kernels(shape, qkv.dtype)) return ordered_attention_grad_bytes(shape);
  if (by_whole_heads(shape, qkv.dtype)) return 0;
  if (grad_by_cudnn(context, shape, qkv.dtype)) return context.cudnn.grad_workspace_bytes(shape);
  return graph.type(node.inputs[3]).num_bytes();  // delta is as large as lse
}

bool run_attention_grad_turned(const KernelCall& grad, const KernelCall& rope, Context& context) {
  const AttentionShape shape = shape_of(grad, grad.inputs[1].shape, 4);
  const TensorView& table = rope.inputs[1];
  if (!by_hopper_kernels(shape, grad.inputs[1].dtype)) return false;
  if (2 * table.shape[1] != shape.head_dim || table.shape[0] < shape.seq) return false;
  AttentionGradOperands operands = grad_operands(grad);
  operands.dqkv = rope.outputs[0].data;
  operands.turns = table.as<float>().data();
  ordered_attention_grad(context, shape, operands, grad.workspace);
  return true;
}

void attention_grad(const KernelCall& call, Context& context) {
  const DType dtype = call.inputs[1].dtype;
  const AttentionShape shape = shape_of(call, call.inputs[1].shape, 4);
  const AttentionGradOperands operands = grad_operands(call);
  if (by_hopper_kernels(shape, dtype)) {
    return ordered_attention_grad(context, shape, operands, call.workspace);
  }
  if (by_whole_heads(shape, dtype)) return whole_head_attention_grad(context, shape, operands);
  if (grad_by_cudnn(context, shape, dtype)) {
    return context.cudnn.run_grad(shape, operands, call.workspace, context.stream);
  }
  TS_ASSERT(static_cast<std::int64_t>(call.workspace.size()) >= call.inputs[3].num_bytes());
  attention_delta(context, shape, dtype, operands);
  if (by_tensor_cores(shape, dtype)) return tensor_core_attention_grad(context, shape, operands);
  plain_attention_grad(context, shape, dtype, operands);
}

}  // namespace tessera::cuda
