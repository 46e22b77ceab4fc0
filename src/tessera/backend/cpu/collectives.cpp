// The collectives on host memory: the communicator moves the bytes, these kernels bring them into the shape
// it understands.
#include "tessera/ops/collectives.h"

#include <array>
#include <cstring>

#include "tessera/backend/cpu/element.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/backend/cpu/kernel_workspace.h"
#include "tessera/backend/cpu/loop_blocks.h"
#include "tessera/runtime/even_cut.h"
#include "tessera/runtime/rank_part.h"

namespace tessera::cpu {
namespace {

const CollectiveAttrs& attrs_of(const KernelCall& call) {
  return call.attrs->as<CollectiveAttrs>();
}

Communicator& group_of(const KernelCall& call) {
  TS_ASSERT(call.ranks != nullptr);
  return call.ranks->group(attrs_of(call).group);
}

std::byte* bytes(const TensorView& view) {
  return static_cast<std::byte*>(view.data);
}

// Copies the elements that `rank` holds between the whole tensor and its shard.
enum class Direction { to_shard, to_whole };
void copy_runs(const CollectiveAttrs& attrs, int rank, std::int64_t elem_bytes, std::byte* whole,
               std::byte* part, Direction direction) {
  for_each_shard_run(attrs.whole, attrs.placement, attrs.num_ranks, rank, [&](const ShardRun& run) {
    std::byte* const in_whole = whole + run.whole_offset * elem_bytes;
    std::byte* const in_part = part + run.local_offset * elem_bytes;
    const auto count = static_cast<std::size_t>(run.count * elem_bytes);
    if (direction == Direction::to_shard) {
      std::memcpy(in_part, in_whole, count);
    } else {
      std::memcpy(in_whole, in_part, count);
    }
  });
}

// A block whose pieces lie on several ranks, in elements of a rank's part.
struct CopiedBlock {
  const Block& block;
  int num_ranks, rank;
  std::int64_t first, piece_elems;
};

// Elements of a piece that are summed before they are rounded.
constexpr std::int64_t kSummedElems = 256;

// own's pieces become the sums of their copies in all ranks' parts, in the order of the ranks, rounded once.
template <class T>
void add_copies(const CopiedBlock& b, const T* parts, std::span<T> own) {
  const std::int64_t held = b.block.held;
  std::array<Accumulate<T>, kSummedElems> sums;
  for (std::int64_t at = 0; at < held * b.piece_elems;) {
    const std::int64_t slot = at / b.piece_elems, in_piece = at % b.piece_elems;
    const std::int64_t count = std::min(kSummedElems, b.piece_elems - in_piece);
    const std::int64_t mine = b.block.piece(b.num_ranks, b.rank, slot);
    std::fill_n(sums.begin(), count, Accumulate<T>{0});
    for (std::int64_t copy = 0; copy < b.num_ranks * held; ++copy) {
      const auto rank = static_cast<int>(copy / held);
      if (b.block.piece(b.num_ranks, rank, copy % held) != mine) continue;
      const T* const from = parts + rank * static_cast<std::int64_t>(own.size()) + b.first +
                            copy % held * b.piece_elems + in_piece;
      for (std::int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] += widen(from[i]);
    }
    T* const to = own.data() + b.first + at;
    for (std::int64_t i = 0; i < count; ++i) put(to[i], sums[static_cast<std::size_t>(i)]);
    at += count;
  }
}

void add_copies(const CopiedBlock& b, const std::byte* parts, const TensorView& own) {
  const auto add = [&]<class T>(std::span<T> mine) {
    add_copies(b, reinterpret_cast<const T*>(parts), mine);
  };
  switch (own.dtype) {
    case DType::f32:
      return add(own.as<float>());
    case DType::bf16:
      return add(own.as<Bf16>());
    case DType::f64:
      return add(own.as<double>());
    default:
      fail("[reduce_copies] the copies are {}, expected a floating type", dtype_name(own.dtype));
  }
}

// Padding: zeros, or for ids the -1 that no loss scores.
void fill_padding(const TensorView& view) {
  std::memset(view.data, view.dtype == DType::i32 ? 0xff : 0, static_cast<std::size_t>(view.num_bytes()));
}

}  // namespace

void all_reduce(const KernelCall& call, Context&) {
  const CollectiveAttrs& attrs = attrs_of(call);
  for (const TensorView& view : call.outputs) {
    const ElementRange own = own_range(call, attrs.range, view.num_elems());
    group_of(call).all_reduce(bytes(view) + own.begin * dtype_bytes(view.dtype), own.size(), view.dtype,
                              Reduction::sum);
  }
}

void all_gather(const KernelCall& call, Context&) {
  const CollectiveAttrs& attrs = attrs_of(call);
  const TensorView &part = call.inputs[0], &whole = call.outputs[0];
  if (is_even_cut(attrs))
    return group_of(call).all_gather(part.data, whole.data, strips_of(attrs), part.dtype);
  std::byte* const parts = call.workspace.data();
  group_of(call).all_gather(part.data, parts, {1, part.num_elems()}, part.dtype);
  for (int rank = 0; rank < attrs.num_ranks; ++rank) {
    copy_runs(attrs, rank, dtype_bytes(part.dtype), bytes(whole), parts + rank * part.num_bytes(),
              Direction::to_whole);
  }
}

void reduce_scatter(const KernelCall& call, Context&) {
  const CollectiveAttrs& attrs = attrs_of(call);
  const TensorView &whole = call.inputs[0], &part = call.outputs[0];
  if (is_even_cut(attrs)) {
    return group_of(call).reduce_scatter(whole.data, part.data, strips_of(attrs), part.dtype, Reduction::sum);
  }
  std::byte* const parts = call.workspace.data();
  std::memset(parts, 0, static_cast<std::size_t>(attrs.num_ranks * part.num_bytes()));
  for (int rank = 0; rank < attrs.num_ranks; ++rank) {
    copy_runs(attrs, rank, dtype_bytes(part.dtype), bytes(whole), parts + rank * part.num_bytes(),
              Direction::to_shard);
  }
  group_of(call).reduce_scatter(parts, part.data, {1, part.num_elems()}, part.dtype, Reduction::sum);
}

void shard_slice(const KernelCall& call, Context&) {
  const CollectiveAttrs& attrs = attrs_of(call);
  fill_padding(call.outputs[0]);
  copy_runs(attrs, group_of(call).rank(), dtype_bytes(call.inputs[0].dtype), bytes(call.inputs[0]),
            bytes(call.outputs[0]), Direction::to_shard);
}

void keep_first(const KernelCall& call, Context&) {
  const auto count = static_cast<std::size_t>(call.outputs[0].num_bytes());
  if (group_of(call).rank() == 0) {
    std::memcpy(call.outputs[0].data, call.inputs[0].data, count);
  } else {
    std::memset(call.outputs[0].data, 0, count);
  }
}

// Sharers that are neighbours hold one piece each, at the same place, and reduce it among themselves.
// Otherwise every rank gets all ranks' parts and adds up the copies of its own pieces.
void reduce_copies(const KernelCall& call, Context&) {
  const CollectiveAttrs& attrs = attrs_of(call);
  const TensorView& own = call.outputs[0];
  TS_ASSERT(attrs.placement.dim == 0);
  const std::int64_t row = own.num_elems() / own.shape[0];
  Communicator& group = group_of(call);
  const bool neighbours = attrs.group == Group::heads;
  if (!neighbours) group.all_gather(own.data, call.workspace.data(), {1, own.num_elems()}, own.dtype);
  std::int64_t first_row = 0;
  for (const Block& block : attrs.placement.blocks) {
    if (block.copies(attrs.axis_ranks) > 1 && neighbours) {
      std::byte* const piece = bytes(own) + first_row * row * dtype_bytes(own.dtype);
      group.all_reduce(piece, block.piece_size() * row, own.dtype, Reduction::sum);
    } else if (block.copies(attrs.axis_ranks) > 1) {
      const CopiedBlock copied{block, attrs.axis_ranks, group.rank(), first_row * row,
                               block.piece_size() * row};
      add_copies(copied, call.workspace.data(), own);
    }
    first_row += block.local_size();
  }
}

void reduce_scatter_flat(const KernelCall& call, Context&) {
  const FlatRange range{true, Axis::dp, attrs_of(call).num_ranks};
  for (const TensorView& view : call.outputs) {
    const std::int64_t elems = view.num_elems(), part = flat_range_size(elems, range.num_ranks);
    const ElementRange own = own_range(call, range, elems);
    std::byte* const to = bytes(view) + own.begin * dtype_bytes(view.dtype);
    const auto own_bytes = static_cast<std::size_t>(own.size() * dtype_bytes(view.dtype));
    // The communicator's parts are equal: a tensor that does not divide goes through a padded copy.
    std::byte* const padded = call.workspace.data();
    const auto part_bytes = static_cast<std::size_t>(part * dtype_bytes(view.dtype));
    const bool even = elems % range.num_ranks == 0;
    if (!even) {
      std::memset(padded, 0, part_bytes * static_cast<std::size_t>(range.num_ranks + 1));
      std::memcpy(padded, view.data, static_cast<std::size_t>(view.num_bytes()));
    }
    std::byte* const sum = padded + part_bytes * static_cast<std::size_t>(even ? 0 : range.num_ranks);
    group_of(call).reduce_scatter(even ? view.data : padded, sum, {1, part}, view.dtype, Reduction::sum);
    std::memcpy(to, sum, own_bytes);
  }
}

void all_gather_flat(const KernelCall& call, Context&) {
  const FlatRange range{true, Axis::dp, attrs_of(call).num_ranks};
  for (const TensorView& view : call.outputs) {
    const std::int64_t elems = view.num_elems(), part = flat_range_size(elems, range.num_ranks);
    const ElementRange own = own_range(call, range, elems);
    const std::byte* const from = bytes(view) + own.begin * dtype_bytes(view.dtype);
    if (elems % range.num_ranks == 0) {
      group_of(call).all_gather(from, view.data, {1, part}, view.dtype);
      continue;
    }
    std::byte* const whole = call.workspace.data();
    const auto part_bytes = static_cast<std::size_t>(part * dtype_bytes(view.dtype));
    std::byte* const mine = whole + part_bytes * static_cast<std::size_t>(range.num_ranks);
    std::memcpy(mine, from, static_cast<std::size_t>(own.size() * dtype_bytes(view.dtype)));
    group_of(call).all_gather(mine, whole, {1, part}, view.dtype);
    std::memcpy(view.data, whole, static_cast<std::size_t>(view.num_bytes()));
  }
}

std::int64_t collective_workspace_bytes(const Graph& graph, const Node& node) {
  const auto& attrs = node.attrs.as<CollectiveAttrs>();
  const auto all_parts = [&](ValueId part) { return attrs.num_ranks * graph.type(part).num_bytes(); };
  switch (node.op) {
    case Op::all_gather:
      return is_even_cut(attrs) ? 0 : all_parts(node.inputs[0]);
    case Op::reduce_scatter:
      return is_even_cut(attrs) ? 0 : all_parts(node.outputs[0]);
    case Op::reduce_copies:
      return attrs.group == Group::heads ? 0 : all_parts(node.inputs[0]);
    case Op::reduce_scatter_flat:
    case Op::all_gather_flat:
      break;
    default:
      return 0;
  }
  std::int64_t most = 0;
  for (ValueId v : node.inputs) {
    const ValueType& type = graph.type(v);
    const std::int64_t part =
        flat_range_size(type.shape.num_elems(), attrs.num_ranks) * dtype_bytes(type.dtype);
    const bool even = type.shape.num_elems() % attrs.num_ranks == 0;
    const std::int64_t parts = even ? (node.op == Op::reduce_scatter_flat ? 1 : 0) : attrs.num_ranks + 1;
    most = std::max(most, parts * part);
  }
  return most;
}

}  // namespace tessera::cpu
