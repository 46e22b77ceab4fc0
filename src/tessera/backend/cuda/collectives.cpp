// The collectives on GPU memory: the group's communicator moves the bytes, on the side stream, and what it
// does not understand is copied into its shape. Ranks whose GPUs cannot talk go through the host.
#include "tessera/backend/cuda/collectives.h"

#include <algorithm>
#include <vector>

#include "tessera/backend/cuda/cuda_call.h"
#include "tessera/backend/cuda/host_collectives.h"
#include "tessera/backend/cuda/limits.h"
#include "tessera/backend/cuda/shard_copies.h"
#include "tessera/backend/cuda/side_stream.h"
#include "tessera/backend/cuda/sum_of_ranks.h"
#include "tessera/comm/device_communicator.h"
#include "tessera/runtime/even_cut.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cuda {
namespace {

const CollectiveAttrs& attrs_of(const KernelCall& call) {
  return call.attrs->as<CollectiveAttrs>();
}

DeviceCommunicator* group_of(const KernelCall& call) {
  TS_ASSERT(call.ranks != nullptr);
  return call.ranks->on_device(attrs_of(call).group);
}

bool goes_as_it_is(const CollectiveAttrs& attrs) {
  return is_even_cut(attrs) && strips_of(attrs).outer <= kMostStrips;
}

std::byte* bytes(const TensorView& view) {
  return static_cast<std::byte*>(view.data);
}

std::vector<DeviceTensor> tensors_of(std::span<const TensorView> views) {
  std::vector<DeviceTensor> tensors;
  for (const TensorView& view : views) tensors.push_back({view.data, view.num_elems(), view.dtype});
  return tensors;
}

// own's pieces become the sums of their copies in all ranks' parts, in the order of the ranks.
void add_copies(const CollectiveAttrs& attrs, const Block& block, std::int64_t first, std::int64_t row,
                int rank, const std::byte* parts, const TensorView& own, cudaStream_t stream) {
  const std::int64_t piece_elems = block.piece_size() * row, elem_bytes = dtype_bytes(own.dtype);
  for (std::int64_t slot = 0; slot < block.held; ++slot) {
    const std::int64_t mine = block.piece(attrs.axis_ranks, rank, slot);
    RankSum sum{.num_to = 1, .count = piece_elems, .inner = piece_elems, .stride = piece_elems};
    sum.to[0] = bytes(own) + (first + slot * piece_elems) * elem_bytes;
    for (std::int64_t copy = 0; copy < attrs.axis_ranks * block.held; ++copy) {
      const auto holder = static_cast<int>(copy / block.held);
      if (block.piece(attrs.axis_ranks, holder, copy % block.held) != mine) continue;
      TS_CHECK(sum.num_from < kMostPeers, "[reduce_copies] more than {} copies of a head", kMostPeers);
      sum.from[static_cast<std::size_t>(sum.num_from++)] =
          parts + (holder * own.num_elems() + first + copy % block.held * piece_elems) * elem_bytes;
    }
    sum_of_ranks(sum, own.dtype, Reduction::sum, stream);
  }
}

// See the host's kernel: neighbours hold one piece each, at the same place.
void add_all_copies(const KernelCall& call, DeviceCommunicator& group, cudaStream_t stream) {
  const CollectiveAttrs& attrs = attrs_of(call);
  const TensorView& own = call.outputs[0];
  TS_ASSERT(attrs.placement.dim == 0);
  const std::int64_t row = own.num_elems() / own.shape[0];
  const bool neighbours = attrs.group == Group::heads;
  std::byte* const parts = call.workspace.data();
  if (!neighbours) group.all_gather(own.data, parts, {1, own.num_elems()}, own.dtype, stream);
  std::int64_t first = 0;
  for (const Block& block : attrs.placement.blocks) {
    if (block.copies(attrs.axis_ranks) > 1 && neighbours) {
      const DeviceTensor piece{bytes(own) + first * dtype_bytes(own.dtype), block.piece_size() * row,
                               own.dtype};
      group.all_reduce({&piece, 1}, Reduction::sum, stream);
    } else if (block.copies(attrs.axis_ranks) > 1) {
      add_copies(attrs, block, first, row, group.rank(), parts, own, stream);
    }
    first += block.local_size() * row;
  }
}

}  // namespace

void all_reduce(const KernelCall& call, Context& context) {
  DeviceCommunicator* const group = group_of(call);
  if (group == nullptr) return run_on_host(Op::all_reduce, call, context);
  std::vector<DeviceTensor> tensors = tensors_of(call.outputs);
  for (DeviceTensor& tensor : tensors) {
    const ElementRange own = own_range(call, attrs_of(call).range, tensor.count);
    tensor.data = static_cast<std::byte*>(tensor.data) + own.begin * dtype_bytes(tensor.dtype);
    tensor.count = own.size();
  }
  context.side.run(call, [&](cudaStream_t stream) { group->all_reduce(tensors, Reduction::sum, stream); });
}

void all_gather(const KernelCall& call, Context& context) {
  DeviceCommunicator* const group = group_of(call);
  if (group == nullptr) return run_on_host(Op::all_gather, call, context);
  const CollectiveAttrs& attrs = attrs_of(call);
  const TensorView &part = call.inputs[0], &whole = call.outputs[0];
  context.side.run(call, [&](cudaStream_t stream) {
    if (goes_as_it_is(attrs)) {
      return group->all_gather(part.data, whole.data, strips_of(attrs), part.dtype, stream);
    }
    std::byte* const parts = call.workspace.data();
    group->all_gather(part.data, parts, {1, part.num_elems()}, part.dtype, stream);
    for (int rank = 0; rank < attrs.num_ranks; ++rank) {
      copy_shard(attrs, rank, dtype_bytes(part.dtype), bytes(whole), parts + rank * part.num_bytes(),
                 ShardCopy::to_whole, stream);
    }
  });
}

void reduce_scatter(const KernelCall& call, Context& context) {
  DeviceCommunicator* const group = group_of(call);
  if (group == nullptr) return run_on_host(Op::reduce_scatter, call, context);
  const CollectiveAttrs& attrs = attrs_of(call);
  const TensorView &whole = call.inputs[0], &part = call.outputs[0];
  context.side.run(call, [&](cudaStream_t stream) {
    if (goes_as_it_is(attrs)) {
      return group->reduce_scatter(whole.data, part.data, strips_of(attrs), part.dtype, Reduction::sum,
                                   stream);
    }
    std::byte* const parts = call.workspace.data();
    const auto all_bytes = static_cast<std::size_t>(attrs.num_ranks * part.num_bytes());
    check_cuda(cudaMemsetAsync(parts, 0, all_bytes, stream), "clear padding");
    for (int rank = 0; rank < attrs.num_ranks; ++rank) {
      copy_shard(attrs, rank, dtype_bytes(part.dtype), bytes(whole), parts + rank * part.num_bytes(),
                 ShardCopy::to_shard, stream);
    }
    group->reduce_scatter(parts, part.data, {1, part.num_elems()}, part.dtype, Reduction::sum, stream);
  });
}

// Padding is zeros, or for ids the -1 that no loss scores.
void shard_slice(const KernelCall& call, Context& context) {
  const TensorView &whole = call.inputs[0], &part = call.outputs[0];
  const int padding = part.dtype == DType::i32 ? 0xff : 0;
  check_cuda(cudaMemsetAsync(part.data, padding, static_cast<std::size_t>(part.num_bytes()), context.stream),
             "fill padding");
  copy_shard(attrs_of(call), call.ranks->group(attrs_of(call).group).rank(), dtype_bytes(part.dtype),
             bytes(whole), bytes(part), ShardCopy::to_shard, context.stream);
}

void keep_first(const KernelCall& call, Context& context) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const auto count = static_cast<std::size_t>(y.num_bytes());
  if (call.ranks->group(attrs_of(call).group).rank() != 0) {
    check_cuda(cudaMemsetAsync(y.data, 0, count, context.stream), "clear a tensor");
  } else if (x.data != y.data) {
    check_cuda(cudaMemcpyAsync(y.data, x.data, count, cudaMemcpyDeviceToDevice, context.stream),
               "copy a tensor");
  }
}

void reduce_copies(const KernelCall& call, Context& context) {
  DeviceCommunicator* const group = group_of(call);
  if (group == nullptr) return run_on_host(Op::reduce_copies, call, context);
  context.side.run(call, [&](cudaStream_t stream) { add_all_copies(call, *group, stream); });
}

void reduce_scatter_flat(const KernelCall& call, Context& context) {
  DeviceCommunicator* const group = group_of(call);
  if (group == nullptr) return run_on_host(Op::reduce_scatter_flat, call, context);
  context.side.run(call, [&](cudaStream_t stream) {
    group->reduce_scatter_ranges(tensors_of(call.outputs), Reduction::sum, stream);
  });
}

void all_gather_flat(const KernelCall& call, Context& context) {
  DeviceCommunicator* const group = group_of(call);
  if (group == nullptr) return run_on_host(Op::all_gather_flat, call, context);
  context.side.run(call,
                   [&](cudaStream_t stream) { group->all_gather_ranges(tensors_of(call.outputs), stream); });
}

bool runs_beside(Op op, const KernelCall& call) {
  switch (op) {
    case Op::all_reduce:
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::reduce_copies:
    case Op::reduce_scatter_flat:
    case Op::all_gather_flat:
      return group_of(call) != nullptr;
    default:
      return false;
  }
}

std::int64_t collective_workspace_bytes(const Graph& graph, const Node& node) {
  const auto& attrs = node.attrs.as<CollectiveAttrs>();
  const auto all_parts = [&](ValueId part) { return attrs.num_ranks * graph.type(part).num_bytes(); };
  switch (node.op) {
    case Op::all_gather:
      return goes_as_it_is(attrs) ? 0 : all_parts(node.inputs[0]);
    case Op::reduce_scatter:
      return goes_as_it_is(attrs) ? 0 : all_parts(node.outputs[0]);
    case Op::reduce_copies:
      return attrs.group == Group::heads ? 0 : all_parts(node.inputs[0]);
    default:
      return 0;
  }
}

}  // namespace tessera::cuda
