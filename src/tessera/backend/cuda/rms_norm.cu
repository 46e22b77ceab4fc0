// rms_norm, rms_norm_grad, and both with an addition.
//
// With r = 1 / sqrt(mean(x^2) + eps) and n = x r:   y = n w,   dw (+)= sum over rows of dy n,
// dx = r (dy w - n mean(dy w n)).
#include "tessera/backend/cuda/norm_calls.cuh"
#include "tessera/ops/rms_norm.h"

namespace tessera::cuda {
namespace {

double eps_of(const KernelCall& call) {
  return call.attrs->as<RmsNormAttrs>().eps;
}

}  // namespace

void rms_norm(const KernelCall& call, Context& context) {
  norm_after<Norm::rms>(nullptr, call, eps_of(call), context);
}
void add_rms_norm(const KernelCall& add, const KernelCall& norm, Context& context) {
  norm_after<Norm::rms>(&add, norm, eps_of(norm), context);
}

std::int64_t rms_norm_grad_workspace_bytes(const Graph& graph, const Node& node) {
  return norm_grad_workspace_bytes<Norm::rms>(graph, node);
}
void rms_norm_grad(const KernelCall& call, Context& context) {
  norm_grad_before<Norm::rms>(nullptr, call, context);
}
void rms_norm_grad_add(const KernelCall& norm_grad, const KernelCall& add, Context& context) {
  norm_grad_before<Norm::rms>(&add, norm_grad, context);
}

}  // namespace tessera::cuda
