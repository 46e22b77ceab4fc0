#include "tessera/backend/cuda/shard_copies.h"

#include "tessera/backend/cuda/copy_rectangle.h"

namespace tessera::cuda {

// Every index of the dims before the cut one has the same runs, at equal distances: a run of the first is a
// rectangle with all of them.
void copy_shard(const CollectiveAttrs& attrs, int rank, std::int64_t elem_bytes, std::byte* whole,
                std::byte* part, ShardCopy direction, cudaStream_t stream) {
  Placement placement = attrs.placement;
  std::size_t rows = 1;
  Shape row;
  for (int d = 0; d < attrs.whole.rank(); ++d) {
    if (d < placement.dim) {
      rows *= static_cast<std::size_t>(attrs.whole[d]);
    } else {
      row.push_back(attrs.whole[d]);
    }
  }
  placement.dim = 0;
  const auto whole_distance = static_cast<std::size_t>(row.num_elems() * elem_bytes);
  const auto part_distance = static_cast<std::size_t>(local_shape(row, placement).num_elems() * elem_bytes);
  for_each_shard_run(row, placement, attrs.num_ranks, rank, [&](const ShardRun& run) {
    std::byte* const in_whole = whole + run.whole_offset * elem_bytes;
    std::byte* const in_part = part + run.local_offset * elem_bytes;
    const auto width = static_cast<std::size_t>(run.count * elem_bytes);
    if (direction == ShardCopy::to_shard) {
      copy_rectangle(in_part, in_whole, {part_distance, whole_distance}, width, rows, stream, "copy a shard");
    } else {
      copy_rectangle(in_whole, in_part, {whole_distance, part_distance}, width, rows, stream, "copy a shard");
    }
  });
}

}  // namespace tessera::cuda
