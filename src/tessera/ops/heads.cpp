#include "tessera/ops/heads.h"

#include <numeric>

namespace tessera {

HeadLayout local_heads(const HeadLayout& whole, const PlacementCall& call) {
  TS_CHECK(whole.heads % call.num_ranks == 0, "[{}] {}: {} heads cannot be split over parallel.{} = {}",
           op_name(call.node.op), call.node.name, whole.heads, axis_name(call.axis), call.num_ranks);
  const std::int64_t queries = whole.heads / call.num_ranks, group = whole.heads / whole.kv_heads;
  // Equal runs of queries that share a key head on every rank: one copy of the key head for each run.
  const std::int64_t run = std::gcd(group, queries);
  return {queries, queries / run, whole.head_dim};
}

std::vector<Block> qkv_blocks(const HeadLayout& whole, const PlacementCall& call) {
  const HeadLayout local = local_heads(whole, call);
  const Block queries{whole.heads * whole.head_dim, call.num_ranks, 1};
  const Block keys{whole.kv_heads * whole.head_dim, whole.kv_heads, local.kv_heads};
  return {queries, keys, keys};
}

}  // namespace tessera
