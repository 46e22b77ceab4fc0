// Scratch of the kernels that need some: how much, for the device's workspace_bytes. Defined beside the
// kernels.
#pragma once

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

std::int64_t rms_norm_grad_workspace_bytes(const Graph& graph, const Node& node);
std::int64_t layer_norm_grad_workspace_bytes(const Graph& graph, const Node& node);
std::int64_t embedding_grad_workspace_bytes(const Graph& graph, const Node& node);
std::int64_t cross_entropy_workspace_bytes(const Graph& graph, const Node& node);
std::int64_t linear_cross_entropy_workspace_bytes(const Graph& graph, const Node& node);
std::int64_t attention_workspace_bytes(const Graph& graph, const Node& node, Context& context);
std::int64_t attention_grad_workspace_bytes(const Graph& graph, const Node& node, Context& context);
std::int64_t sum_squares_workspace_bytes(const Graph& graph, const Node& node);

}  // namespace tessera::cuda
