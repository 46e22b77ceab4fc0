// copy_shard: the elements that a rank holds, between the whole tensor and its shard, as rectangles that the
// copy engine moves. Used by the collectives of cuts that no communicator understands, and by shard_slice.
#pragma once

#include "tessera/backend/cuda/kernel.h"
#include "tessera/ops/collectives.h"

namespace tessera::cuda {

enum class ShardCopy { to_shard, to_whole };

void copy_shard(const CollectiveAttrs& attrs, int rank, std::int64_t elem_bytes, std::byte* whole,
                std::byte* part, ShardCopy direction, cudaStream_t stream);

}  // namespace tessera::cuda
