// layer_norm, layer_norm_grad, and both with an addition.
//
// With d = 1 / sqrt(variance + eps) and n = (x - mean) d:   y = n w + b,   dw (+)= sum over rows of dy n,
// db (+)= sum over rows of dy,   dx = d (dy w - mean(dy w) - n mean(dy w n)).
#include "tessera/backend/cuda/norm_calls.cuh"
#include "tessera/ops/layer_norm.h"

namespace tessera::cuda {
namespace {

double eps_of(const KernelCall& call) {
  return call.attrs->as<LayerNormAttrs>().eps;
}

}  // namespace

void layer_norm(const KernelCall& call, Context& context) {
  norm_after<Norm::layer>(nullptr, call, eps_of(call), context);
}
void add_layer_norm(const KernelCall& add, const KernelCall& norm, Context& context) {
  norm_after<Norm::layer>(&add, norm, eps_of(norm), context);
}

std::int64_t layer_norm_grad_workspace_bytes(const Graph& graph, const Node& node) {
  return norm_grad_workspace_bytes<Norm::layer>(graph, node);
}
void layer_norm_grad(const KernelCall& call, Context& context) {
  norm_grad_before<Norm::layer>(nullptr, call, context);
}
void layer_norm_grad_add(const KernelCall& norm_grad, const KernelCall& add, Context& context) {
  norm_grad_before<Norm::layer>(&add, norm_grad, context);
}

}  // namespace tessera::cuda
