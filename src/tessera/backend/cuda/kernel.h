// What a CUDA kernel gets, and the table of kernels. A kernel is a function cuda::<op>(call, context) that
// enqueues its work on the context's stream (a collective on its side stream) and returns; op_list.def
// expands to their declarations, so a missing one is a link error.
//
// Every sum has a fixed order: no atomics on floating numbers but in turns (ordered_attention_order.h).
// Kernels write every element of their outputs, allocate nothing and read scalars (learning rate, step, loss
// scale) from device memory, so that a captured graph of them stays valid.
#pragma once

#include <cuda_runtime_api.h>

#include "tessera/runtime/device.h"

namespace tessera::cuda {

class CudnnAttention;
class GemmPlans;
class SideStream;
class Transfers;

struct Context {
  cudaStream_t stream = nullptr;
  GemmPlans& gemms;
  CudnnAttention& cudnn;
  Transfers& transfers;
  SideStream& side;  // runs the collectives
  Device& host;      // runs them where the ranks' GPUs cannot talk
};

#define TESSERA_OP(name) void name(const KernelCall& call, Context& context);
#include "tessera/graph/op_list.def"
#undef TESSERA_OP

// Scratch a node needs; refuses what no kernel here computes (f64), naming the node.
std::int64_t workspace_bytes(const Graph& graph, const Node& node, Context& context);

}  // namespace tessera::cuda
