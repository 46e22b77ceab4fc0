#include "tessera/backend/cuda/shard_copies.h"

#include "tessera/backend/cuda/cuda_call.h"

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
  const auto whole_pitch = static_cast<std::size_t>(row.num_elems() * elem_bytes);
  const auto part_pitch = static_cast<std::size_t>(local_shape(row, placement).num_elems() * elem_bytes);
  for_each_shard_run(row, placement, attrs.num_ranks, rank, [&](const ShardRun& run) {
    std::byte* const in_whole = whole + run.whole_offset * elem_bytes;
    std::byte* const in_part = part + run.local_offset * elem_bytes;
    const auto width = static_cast<std::size_t>(run.count * elem_bytes);
    const bool to_shard = direction == ShardCopy::to_shard;
    check_cuda(cudaMemcpy2DAsync(to_shard ? in_part : in_whole, to_shard ? part_pitch : whole_pitch,
                                 to_shard ? in_whole : in_part, to_shard ? whole_pitch : part_pitch, width,
                                 rows, cudaMemcpyDeviceToDevice, stream),
               "copy a shard");
  });
}

}  // namespace tessera::cuda
