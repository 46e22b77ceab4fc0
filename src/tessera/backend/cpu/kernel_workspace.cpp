#include "tessera/backend/cpu/kernel_workspace.h"

#include "tessera/backend/cpu/gemm.h"
#include "tessera/ops/matmul.h"

namespace tessera::cpu {
namespace {

std::int64_t linear_workspace(const Graph& graph, const Node& node, int num_threads) {
  const ValueType& out = graph.type(node.outputs[0]);
  const Shape &first = graph.type(node.inputs[0]).shape, &second = graph.type(node.inputs[1]).shape;
  switch (node.op) {
    case Op::linear:
      return gemm_workspace_bytes({first.num_rows(), second[0], second[1]}, out.dtype, num_threads);
    case Op::linear_grad_input:
      return gemm_workspace_bytes({first.num_rows(), second[1], second[0]}, out.dtype, num_threads);
    case Op::linear_grad_weight:
      return gemm_workspace_bytes({first[0], first[1], second.num_rows()}, out.dtype, num_threads);
    default: {
      const std::int64_t k = node.attrs.as<MatmulAttrs>().transpose_a ? first[-2] : first[-1];
      return gemm_workspace_bytes({out.shape[-2], out.shape[-1], k}, out.dtype, num_threads);
    }
  }
}

}  // namespace

std::int64_t workspace_bytes(const Graph& graph, const Node& node, int num_threads) {
  switch (node.op) {
    case Op::linear:
    case Op::linear_grad_input:
    case Op::linear_grad_weight:
    case Op::matmul:
      return linear_workspace(graph, node, num_threads);
    case Op::linear_cross_entropy:
    case Op::linear_cross_entropy_grad:
      return linear_cross_entropy_workspace_bytes(graph, node, num_threads);
    case Op::attention:
    case Op::attention_grad:
      return attention_node_workspace_bytes(graph, node, num_threads);
    case Op::cached_attention:
      return cached_attention_workspace_bytes(graph, node, num_threads);
    case Op::rms_norm_grad:
      return rms_norm_grad_workspace_bytes(graph, node);
    case Op::layer_norm_grad:
      return layer_norm_grad_workspace_bytes(graph, node);
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::reduce_copies:
    case Op::reduce_scatter_flat:
    case Op::all_gather_flat:
      return collective_workspace_bytes(graph, node);
    default:
      return 0;
  }
}

}  // namespace tessera::cpu
