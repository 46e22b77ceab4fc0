// Scratch of the kernels that need some: how much, for the device's workspace_bytes, and as what.
#pragma once

#include <span>

#include "tessera/backend/cpu/kernel.h"

namespace tessera::cpu {

// Partial sums of the weights' gradients, one set per part of the rows.
std::int64_t rms_norm_grad_workspace_bytes(const Graph& graph, const Node& node);
std::int64_t layer_norm_grad_workspace_bytes(const Graph& graph, const Node& node);

// A chunk of logits and the scratch of its products; the scratch of attention's blocks.
std::int64_t linear_cross_entropy_workspace_bytes(const Graph& graph, const Node& node, int num_threads);
std::int64_t attention_node_workspace_bytes(const Graph& graph, const Node& node, int num_threads);
std::int64_t cached_attention_workspace_bytes(const Graph& graph, const Node& node, int num_threads);

// Copies of tensors that do not divide evenly among the ranks.
std::int64_t collective_workspace_bytes(const Graph& graph, const Node& node);

// The call's workspace as `num_elems` of A; asserts that they fit.
template <class A>
std::span<A> workspace_as(const KernelCall& call, std::int64_t num_elems) {
  TS_ASSERT(static_cast<std::int64_t>(call.workspace.size()) >=
            num_elems * static_cast<std::int64_t>(sizeof(A)));
  return {reinterpret_cast<A*>(call.workspace.data()), static_cast<std::size_t>(num_elems)};
}

}  // namespace tessera::cpu
