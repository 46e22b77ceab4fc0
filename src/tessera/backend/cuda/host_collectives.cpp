#include "tessera/backend/cuda/host_collectives.h"

#include <algorithm>
#include <vector>

#include "tessera/backend/cuda/transfers.h"
#include "tessera/base/alignment.h"
#include "tessera/ops/collectives.h"

namespace tessera::cuda {
namespace {

std::int64_t most_bytes(std::span<const TensorView> views) {
  std::int64_t most = 0;
  for (const TensorView& view : views) most = std::max(most, view.num_bytes());
  return most;
}

// At least what the host's kernel wants: all ranks' parts of the largest tensor, and for ranges one more.
std::int64_t host_workspace_bytes(Op op, const KernelCall& call) {
  const std::int64_t ranks = call.attrs->as<CollectiveAttrs>().num_ranks;
  if (op == Op::reduce_scatter_flat || op == Op::all_gather_flat) {
    return (ranks + 1) * (most_bytes(call.inputs) / ranks + dtype_bytes(DType::f64));
  }
  return ranks * std::min(most_bytes(call.inputs), most_bytes(call.outputs));
}

}  // namespace

void run_on_host(Op op, const KernelCall& call, Context& context) {
  const std::int64_t workspace_bytes = host_workspace_bytes(op, call);
  std::int64_t total = workspace_bytes + kAlignment;
  for (const TensorView& view : call.inputs) total += align_up(view.num_bytes());
  for (const TensorView& view : call.outputs) total += align_up(view.num_bytes());
  std::byte* at = context.transfers.scratch(static_cast<std::size_t>(total));

  std::vector<TensorView> inputs(call.inputs.begin(), call.inputs.end());
  std::vector<TensorView> outputs(call.outputs.begin(), call.outputs.end());
  for (TensorView& view : inputs) {
    context.transfers.download({at, static_cast<std::size_t>(view.num_bytes())},
                               static_cast<const std::byte*>(view.data));
    view.data = at;
    at += align_up(view.num_bytes());
  }
  // What is done in place there is done in place here.
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto same = std::find_if(call.inputs.begin(), call.inputs.end(),
                                   [&](const TensorView& input) { return input.data == outputs[i].data; });
    if (same != call.inputs.end()) {
      outputs[i].data = inputs[static_cast<std::size_t>(same - call.inputs.begin())].data;
    } else {
      outputs[i].data = at;
      at += align_up(outputs[i].num_bytes());
    }
  }
  context.host.run(
      op, {inputs, outputs, call.attrs, {at, static_cast<std::size_t>(workspace_bytes)}, call.ranks});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    context.transfers.upload(
        static_cast<std::byte*>(call.outputs[i].data),
        {static_cast<const std::byte*>(outputs[i].data), static_cast<std::size_t>(outputs[i].num_bytes())});
  }
}

}  // namespace tessera::cuda
