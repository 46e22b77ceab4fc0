#include "tessera/backend/cuda/kernel_workspace.h"

#include "tessera/backend/cuda/collectives.h"
#include "tessera/backend/cuda/column_sums.h"
#include "tessera/backend/cuda/gemm.h"

namespace tessera::cuda {
namespace {

// The norm's sum of squares is the one f64, a scalar.
void check_types(const Graph& graph, const Node& node) {
  const auto check = [&](ValueId v) {
    TS_CHECK(graph.type(v).dtype != DType::f64 || graph.type(v).shape.rank() == 0,
             "[{}] {}: {} is not computed on cuda, expected f32 or bf16", op_name(node.op), node.name,
             graph.type(v).text());
  };
  for (ValueId v : node.inputs) check(v);
  for (ValueId v : node.outputs) check(v);
}

}  // namespace

std::int64_t workspace_bytes(const Graph& graph, const Node& node, Context& context) {
  check_types(graph, node);
  switch (node.op) {
    case Op::linear:
    case Op::linear_grad_input:
    case Op::linear_grad_weight:
    case Op::matmul:
      return kGemmWorkspaceBytes;
    case Op::softmax_cross_entropy:
      return cross_entropy_workspace_bytes(graph, node);
    case Op::linear_cross_entropy:
    case Op::linear_cross_entropy_grad:
      return linear_cross_entropy_workspace_bytes(graph, node);
    case Op::attention:
      return attention_workspace_bytes(graph, node, context);
    case Op::attention_grad:
      return attention_grad_workspace_bytes(graph, node, context);
    case Op::rms_norm_grad:
      return rms_norm_grad_workspace_bytes(graph, node);
    case Op::layer_norm_grad:
      return layer_norm_grad_workspace_bytes(graph, node);
    case Op::embedding_grad:
      return embedding_grad_workspace_bytes(graph, node);
    case Op::sum_squares:
      return sum_squares_workspace_bytes(graph, node);
    case Op::sum_to: {
      const std::int64_t columns = graph.type(node.outputs[0]).shape.num_elems();
      return column_sums_workspace_bytes({graph.type(node.inputs[1]).shape.num_elems() / columns, columns});
    }
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::reduce_copies:
      return collective_workspace_bytes(graph, node);
    default:
      return 0;
  }
}

}  // namespace tessera::cuda
