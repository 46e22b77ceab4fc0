#include "tessera/backend/cuda/fused_pairs.h"

#include <algorithm>

#include "tessera/backend/cuda/attention.h"
#include "tessera/backend/cuda/fused_norm.h"
#include "tessera/backend/cuda/linear.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/rope.h"

namespace tessera::cuda {
namespace {

bool is_norm(Op op) {
  return op == Op::rms_norm || op == Op::layer_norm;
}
bool is_norm_grad(Op op) {
  return op == Op::rms_norm_grad || op == Op::layer_norm_grad;
}

// Of the first's outputs, the first one.
bool reads(const Node& second, const Node& first) {
  return std::find(second.inputs.begin(), second.inputs.end(), first.outputs[0]) != second.inputs.end();
}

bool read_once(const Graph& graph, ValueId value) {
  int uses = 0;
  for (const Node& node : graph.nodes())
    uses += static_cast<int>(std::count(node.inputs.begin(), node.inputs.end(), value));
  return uses == 1;
}

// cuBLASLt has the tanh form alone.
bool by_tanh(const Attrs& attrs) {
  return attrs.as<GeluAttrs>().tanh_approximation;
}

// By positions that begin at 0.
bool turns_back(const Node& rope) {
  return rope.attrs.as<RopeAttrs>().inverse && rope.inputs.size() == 2;
}

bool run_linear_gelu(const KernelCall& linear, const KernelCall& gelu, Context& context) {
  Product product = linear_product(linear);
  product.epilogue = Epilogue::gelu;
  // In place: nobody needs the activation's argument afterwards.
  if (gelu.outputs[0].data != linear.outputs[0].data) product.aux = linear.outputs[0].data;
  product.c = gelu.outputs[0].data;
  if (!context.gemms.supports(product)) return false;
  context.gemms.run(product, context.stream, linear.workspace);
  return true;
}

// dy, x -> dx: what the product makes is dy.
bool run_gelu_grad(const KernelCall& product_call, const KernelCall& gelu_grad, Context& context) {
  Product product = linear_grad_input_product(product_call);
  product.epilogue = Epilogue::gelu_grad;
  product.aux = gelu_grad.inputs[1].data;
  product.c = gelu_grad.outputs[0].data;
  if (!context.gemms.supports(product)) return false;
  context.gemms.run(product, context.stream, product_call.workspace);
  return true;
}

}  // namespace

bool fuses(const Graph& graph, const Node& first, const Node& second) {
  const bool bf16 = !first.outputs.empty() && graph.type(first.outputs[0]).dtype == DType::bf16;
  switch (first.op) {
    case Op::linear:
      return bf16 && second.op == Op::gelu && by_tanh(second.attrs) && reads(second, first);
    case Op::linear_grad_input:
      return bf16 && second.op == Op::gelu_grad && by_tanh(second.attrs) &&
             second.inputs[0] == first.outputs[0] && read_once(graph, first.outputs[0]);
    case Op::attention_grad:
      return bf16 && second.op == Op::rope && turns_back(second) && second.inputs[0] == first.outputs[0] &&
             read_once(graph, first.outputs[0]);
    case Op::add:
      return is_norm(second.op) && second.inputs[0] == first.outputs[0];
    case Op::rms_norm_grad:
    case Op::layer_norm_grad:
      return second.op == Op::add && reads(second, first) && read_once(graph, first.outputs[0]);
    default:
      return false;
  }
}

bool run_pair(Op first_op, const KernelCall& first, Op second_op, const KernelCall& second,
              Context& context) {
  if (first_op == Op::linear) return run_linear_gelu(first, second, context);
  if (first_op == Op::linear_grad_input) return run_gelu_grad(first, second, context);
  if (first_op == Op::attention_grad) return run_attention_grad_turned(first, second, context);
  if (first_op == Op::add && is_norm(second_op)) {
    if (!can_fuse_add_norm(first, second)) return false;
    (second_op == Op::rms_norm ? add_rms_norm : add_layer_norm)(first, second, context);
    return true;
  }
  TS_ASSERT(is_norm_grad(first_op) && second_op == Op::add);
  if (!can_fuse_norm_grad_add(first, second)) return false;
  (first_op == Op::rms_norm_grad ? rms_norm_grad_add : layer_norm_grad_add)(first, second, context);
  return true;
}

}  // namespace tessera::cuda
