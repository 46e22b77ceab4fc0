// What layer_norm.cu and rms_norm.cu share: from a node's operands to those of the kernels. A layer norm has
// a bias and means beside what an rms norm has.
#pragma once

#include "tessera/backend/cuda/fused_norm.h"
#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/norm_forward.cuh"
#include "tessera/backend/cuda/norm_grad.cuh"

namespace tessera::cuda {

// x, weight[, bias] -> y[, means], inverses. `add`, where not null, makes x.
template <Norm kNorm>
void norm_after(const KernelCall* add, const KernelCall& call, double eps, Context& context) {
  const TensorView& x = add ? add->inputs[0] : call.inputs[0];
  for_dtype(x.dtype, [&]<class T>(T) {
    NormOperands<T> operands{.x = data<T>(x),
                             .weight = data<T>(call.inputs[1]),
                             .y = data<T>(call.outputs[0]),
                             .inverses = data<float>(call.outputs.back()),
                             .rows = x.shape.num_rows(),
                             .columns = static_cast<int>(x.shape[-1]),
                             .eps = static_cast<float>(eps)};
    if constexpr (kNorm == Norm::layer) {
      operands.bias = data<T>(call.inputs[2]);
      operands.means = data<float>(call.outputs[1]);
    }
    if (add != nullptr) {
      operands.addend = data<T>(add->inputs[1]);
      operands.sum = data<T>(add->outputs[0]);
    }
    run_norm<kNorm>(context, operands);
  });
}

// dy, x, weight[, means], inverses, sums of the weight's [and the bias'] gradients -> dx, those sums. `add`,
// where not null, adds dx to something.
template <Norm kNorm>
void norm_grad_before(const KernelCall* add, const KernelCall& call, Context& context) {
  constexpr std::size_t kStatistics = kNormSums<kNorm>;  // as many as there are sums
  const MatrixShape shape{call.inputs[0].shape.num_rows(), call.inputs[0].shape[-1]};
  const DType dtype = call.inputs[0].dtype;
  std::array<float*, kNormSums<kNorm>> sums{};
  for (std::size_t i = 0; i < sums.size(); ++i) {
    TS_ASSERT(call.inputs[3 + kStatistics + i].data == call.outputs[1 + i].data);
    sums[i] = data<float>(call.outputs[1 + i]);
  }
  for_dtype(dtype, [&]<class T>(T) {
    NormGradOperands<T> operands{
        .dy = data<T>(call.inputs[0]),
        .x = data<T>(call.inputs[1]),
        .weight = data<T>(call.inputs[2]),
        .of_row = {kNorm == Norm::layer ? data<float>(call.inputs[3]) : nullptr,
                   data<float>(call.inputs[2 + kStatistics])},
        .result = data<T>(call.outputs[0]),
        .partial = workspace_at<float>(call, 0, norm_partial_elems(shape, dtype, kNormSums<kNorm>)),
        .shape = shape,
        .starts_sums = call.starts_sums};
    if (add != nullptr) {
      operands.addend = data<T>(other_addend(call, *add));
      operands.result = data<T>(add->outputs[0]);
    }
    run_norm_grad<kNorm>(context, operands, sums);
  });
}

template <Norm kNorm>
std::int64_t norm_grad_workspace_bytes(const Graph& graph, const Node& node) {
  const ValueType& dy = graph.type(node.inputs[0]);
  return norm_partial_elems({dy.shape.num_rows(), dy.shape[-1]}, dy.dtype, kNormSums<kNorm>) *
         std::int64_t{sizeof(float)};
}

}  // namespace tessera::cuda
