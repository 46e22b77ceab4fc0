#include "tessera/graph/placement.h"

namespace tessera {

Placement replicated() {
  return {};
}
Placement partial_sum() {
  return {Placement::Kind::partial, 0, {}};
}
Placement flat_shard() {
  return {Placement::Kind::flat, 0, {}};
}
Placement shard(int dim, std::vector<Block> blocks) {
  return {Placement::Kind::shard, dim, std::move(blocks)};
}
std::vector<Block> even_cut(std::int64_t size, int num_ranks) {
  return {{size, num_ranks, 1}};
}

std::string Placement::text() const {
  switch (kind) {
    case Kind::replicated:
      return "replicated";
    case Kind::partial:
      return "partial(sum)";
    case Kind::flat:
      return "shard(flat)";
    case Kind::shard:
      break;
  }
  std::string text = "shard(" + std::to_string(dim);
  if (blocks.size() > 1) text += ", stride " + std::to_string(blocks.size());
  if (!copies_agree) text += ", copies unsummed";
  return text + ")";
}

bool has_copies(const Placement& placement, int num_ranks) {
  return std::any_of(placement.blocks.begin(), placement.blocks.end(),
                     [&](const Block& block) { return block.copies(num_ranks) > 1; });
}

Shape local_shape(const Shape& whole, const Placement& placement) {
  if (!placement.is_shard()) return whole;
  std::int64_t size = 0;
  for (const Block& block : placement.blocks) size += block.local_size();
  Shape local = whole;
  local.set(placement.dim, size);
  return local;
}

std::int64_t flat_range_size(std::int64_t num_elems, int num_ranks) {
  return (num_elems + num_ranks - 1) / num_ranks;
}

}  // namespace tessera
