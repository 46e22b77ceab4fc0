// The collectives, through the host: operands are copied there, the host device's kernel works on the copies
// with the communicator, and its results are copied back. Any layout runs so, also several ranks on one GPU.
#include <algorithm>
#include <vector>

#include "tessera/backend/cuda/kernel.h"
#include "tessera/backend/cuda/transfers.h"

namespace tessera::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned_bytes(const TensorView& view) {
  return (static_cast<std::size_t>(view.num_bytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

void run_on_host(Op op, const KernelCall& call, Context& context) {
  std::size_t total = call.workspace.size() + kAlignment;
  for (const TensorView& view : call.inputs) total += aligned_bytes(view);
  for (const TensorView& view : call.outputs) total += aligned_bytes(view);
  std::byte* at = context.transfers.scratch(total);

  std::vector<TensorView> inputs(call.inputs.begin(), call.inputs.end());
  std::vector<TensorView> outputs(call.outputs.begin(), call.outputs.end());
  for (TensorView& view : inputs) {
    context.transfers.download({at, static_cast<std::size_t>(view.num_bytes())},
                               static_cast<const std::byte*>(view.data));
    view.data = at;
    at += aligned_bytes(view);
  }
  // What is done in place there is done in place here.
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto same = std::find_if(call.inputs.begin(), call.inputs.end(),
                                   [&](const TensorView& input) { return input.data == outputs[i].data; });
    if (same != call.inputs.end()) {
      outputs[i].data = inputs[static_cast<std::size_t>(same - call.inputs.begin())].data;
    } else {
      outputs[i].data = at;
      at += aligned_bytes(outputs[i]);
    }
  }
  context.host.run(op, {inputs, outputs, call.attrs, {at, call.workspace.size()}, call.ranks});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    context.transfers.upload(
        static_cast<std::byte*>(call.outputs[i].data),
        {static_cast<const std::byte*>(outputs[i].data), static_cast<std::size_t>(outputs[i].num_bytes())});
  }
}

}  // namespace

void all_reduce(const KernelCall& call, Context& context) {
  run_on_host(Op::all_reduce, call, context);
}
void all_gather(const KernelCall& call, Context& context) {
  run_on_host(Op::all_gather, call, context);
}
void reduce_scatter(const KernelCall& call, Context& context) {
  run_on_host(Op::reduce_scatter, call, context);
}
void shard_slice(const KernelCall& call, Context& context) {
  run_on_host(Op::shard_slice, call, context);
}
void keep_first(const KernelCall& call, Context& context) {
  run_on_host(Op::keep_first, call, context);
}
void reduce_copies(const KernelCall& call, Context& context) {
  run_on_host(Op::reduce_copies, call, context);
}
void reduce_scatter_flat(const KernelCall& call, Context& context) {
  run_on_host(Op::reduce_scatter_flat, call, context);
}
void all_gather_flat(const KernelCall& call, Context& context) {
  run_on_host(Op::all_gather_flat, call, context);
}

}  // namespace tessera::cuda
