// Placement: how a tensor lies on one axis of the mesh. Every op states which placements of its operands
// go together (ops/placement_rule.h); partition/ picks one per node and converts what differs, and each
// conversion is a collective.
//
//   replicated   every rank has all of it
//   shard(dim)   each rank has a part of one dim. The dim may be packed from several blocks (q, k and v;
//                gate and up): every block is cut on its own, so a rank has a part of each
//   partial      every rank has a term of a sum, of the whole's shape
//   flat         each rank has an equal range of the elements in storage order: ZeRO-1's optimizer state
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/graph/mesh.h"

namespace tessera {

// A stretch of a cut dim. It is cut into `pieces`, of which each rank holds `held` in a row. A size that
// does not divide is padded at the end with zeros, which stay zeros through training.
struct Block {
  std::int64_t size = 0;
  std::int64_t pieces = 1;
  std::int64_t held = 1;

  std::int64_t piece_size() const { return (size + pieces - 1) / pieces; }
  std::int64_t local_size() const { return held * piece_size(); }
  // More than one when there are fewer pieces than places for them: key and value heads that several
  // ranks share.
  std::int64_t copies(int num_ranks) const { return num_ranks * held / pieces; }
  // Which piece is number `slot` of `rank`.
  std::int64_t piece(int num_ranks, int rank, std::int64_t slot) const {
    return (rank * held + slot) * pieces / (num_ranks * held);
  }
  bool operator==(const Block&) const = default;
};

struct Placement {
  enum class Kind : std::uint8_t { replicated, shard, partial, flat };
  Kind kind = Kind::replicated;
  int dim = 0;                // shard
  std::vector<Block> blocks;  // shard
  // Shard whose blocks have copies: whether the copies agree, or each is a term of their sum (a gradient).
  bool copies_agree = true;

  bool is_replicated() const { return kind == Kind::replicated; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_partial() const { return kind == Kind::partial; }
  bool is_flat() const { return kind == Kind::flat; }
  bool operator==(const Placement&) const = default;
  std::string text() const;  // "shard(0, stride 3)"
};

Placement replicated();
Placement partial_sum();
Placement flat_shard();
Placement shard(int dim, std::vector<Block> blocks);
// One block, one piece per rank.
std::vector<Block> even_cut(std::int64_t size, int num_ranks);
// Whether some piece lies on several ranks.
bool has_copies(const Placement& placement, int num_ranks);

// The shape that a rank holds; flat shards keep the whole's shape and place.
Shape local_shape(const Shape& whole, const Placement& placement);
// Elements of each rank's range of a flat shard; the last ranks may have fewer.
std::int64_t flat_range_size(std::int64_t num_elems, int num_ranks);

// A contiguous run of elements: where it lies in the whole tensor and in a rank's shard.
struct ShardRun {
  std::int64_t whole_offset = 0, local_offset = 0, count = 0;
  bool first_copy = true;  // no rank before this one holds the same elements
};
// Calls f(ShardRun) for all of a rank's elements, without padding, in the order of the shard. `whole` is the
// shape before this axis cut it. Allocates nothing: kernels use it too.
template <class F>
void for_each_shard_run(const Shape& whole, const Placement& placement, int num_ranks, int rank, F&& f) {
  if (placement.is_flat()) {
    const std::int64_t part = flat_range_size(whole.num_elems(), num_ranks), begin = rank * part;
    const std::int64_t count = std::min(part, whole.num_elems() - begin);
    if (count > 0) f(ShardRun{begin, 0, count, true});
    return;
  }
  if (!placement.is_shard()) return f(ShardRun{0, 0, whole.num_elems(), placement.is_partial() || rank == 0});
  std::int64_t outer = 1, inner = 1;
  for (int d = 0; d < placement.dim; ++d) outer *= whole[d];
  for (int d = placement.dim + 1; d < whole.rank(); ++d) inner *= whole[d];
  const std::int64_t local_dim = local_shape(whole, placement)[placement.dim];
  for (std::int64_t o = 0; o < outer; ++o) {
    std::int64_t block_begin = 0, local_begin = 0;
    for (const Block& block : placement.blocks) {
      for (std::int64_t slot = 0; slot < block.held; ++slot) {
        const std::int64_t begin = block.piece(num_ranks, rank, slot) * block.piece_size();
        const std::int64_t count = std::min(block.piece_size(), block.size - begin);
        if (count <= 0) continue;
        const bool first = (rank * block.held + slot) % block.copies(num_ranks) == 0;
        f(ShardRun{(o * whole[placement.dim] + block_begin + begin) * inner,
                   (o * local_dim + local_begin + slot * block.piece_size()) * inner, count * inner,
                   first || !placement.copies_agree});
      }
      block_begin += block.size;
      local_begin += block.local_size();
    }
  }
}

}  // namespace tessera
