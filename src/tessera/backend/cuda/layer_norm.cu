// layer_norm, layer_norm_grad, and both with an addition.
//
// With d = 1 / sqrt(variance + eps) and n = (x - mean) d:   y = n w + b,   dw += sum over rows of dy n,
// db += sum over rows of dy,   dx = d (dy w - mean(dy w) - n mean(dy w n)).
#include "tessera/backend/cuda/fused_norm.h"
#include "tessera/backend/cuda/kernel_workspace.h"
#include "tessera/backend/cuda/norm_forward.cuh"
#include "tessera/backend/cuda/norm_grad.cuh"
#include "tessera/ops/layer_norm.h"

namespace tessera::cuda {
namespace {

// `add`, where not null, makes the norm's input.
void norm_after(const KernelCall* add, const KernelCall& call, Context& context) {
  const TensorView& x = add ? add->inputs[0] : call.inputs[0];
  for_dtype(x.dtype, [&]<class T>(T) {
    NormOperands<T> operands{.x = data<T>(x),
                             .weight = data<T>(call.inputs[1]),
                             .bias = data<T>(call.inputs[2]),
                             .y = data<T>(call.outputs[0]),
                             .means = data<float>(call.outputs[1]),
                             .inverses = data<float>(call.outputs[2]),
                             .rows = x.shape.num_rows(),
                             .columns = static_cast<int>(x.shape[-1]),
                             .eps = static_cast<float>(call.attrs->as<LayerNormAttrs>().eps)};
    if (add != nullptr) {
      operands.addend = data<T>(add->inputs[1]);
      operands.sum = data<T>(add->outputs[0]);
    }
    run_norm<Norm::layer>(context, operands);
  });
}

// `add`, where not null, adds dx to something.
void norm_grad_before(const KernelCall* add, const KernelCall& call, Context& context) {
  TS_ASSERT(call.inputs[5].data == call.outputs[1].data && call.inputs[6].data == call.outputs[2].data);
  const MatrixShape shape{call.inputs[0].shape.num_rows(), call.inputs[0].shape[-1]};
  const DType dtype = call.inputs[0].dtype;
  for_dtype(dtype, [&]<class T>(T) {
    NormGradOperands<T> operands{
        .dy = data<T>(call.inputs[0]),
        .x = data<T>(call.inputs[1]),
        .weight = data<T>(call.inputs[2]),
        .of_row = {data<float>(call.inputs[3]), data<float>(call.inputs[4])},
        .result = data<T>(call.outputs[0]),
        .partial = workspace_at<float>(call, 0, norm_partial_elems(shape, dtype, kNormSums<Norm::layer>)),
        .shape = shape};
    if (add != nullptr) {
      operands.addend = data<T>(other_addend(call, *add));
      operands.result = data<T>(add->outputs[0]);
    }
    run_norm_grad<Norm::layer>(context, operands,
                               {data<float>(call.outputs[1]), data<float>(call.outputs[2])});
  });
}

}  // namespace

void layer_norm(const KernelCall& call, Context& context) {
  norm_after(nullptr, call, context);
}
void add_layer_norm(const KernelCall& add, const KernelCall& norm, Context& context) {
  norm_after(&add, norm, context);
}

std::int64_t layer_norm_grad_workspace_bytes(const Graph& graph, const Node& node) {
  const ValueType& dy = graph.type(node.inputs[0]);
  return norm_partial_elems({dy.shape.num_rows(), dy.shape[-1]}, dy.dtype, kNormSums<Norm::layer>) *
         std::int64_t{sizeof(float)};
}

void layer_norm_grad(const KernelCall& call, Context& context) {
  norm_grad_before(nullptr, call, context);
}
void layer_norm_grad_add(const KernelCall& norm_grad, const KernelCall& add, Context& context) {
  norm_grad_before(&add, norm_grad, context);
}

}  // namespace tessera::cuda
