// HeadLayout: how the packed projection qkv[..., (heads + 2 kv_heads) head_dim] is laid out: all query
// heads, then all key heads, then all value heads. Query head h reads key and value head
// h / (heads / kv_heads). Shared by rope and attention, so that no copy separates the three.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/graph/attrs.h"
#include "tessera/ops/placement_rule.h"

namespace tessera {

struct HeadLayout {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;

  std::int64_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
  std::int64_t out_columns() const { return heads * head_dim; }
  bool valid() const { return heads >= 1 && kv_heads >= 1 && head_dim >= 1 && heads % kv_heads == 0; }

  void describe(AttrWriter& write) const {
    write("heads", heads);
    write("kv_heads", kv_heads);
    write("head_dim", head_dim);
  }
};

// What one of `num_ranks` ranks holds: equal runs of query heads and the key and value heads that these
// read. Where ranks need parts of the same head, each has a copy of it. The error names the node.
HeadLayout local_heads(const HeadLayout& whole, const PlacementCall& call);
// The packed columns as blocks q, k and v; for letter 'h' of rope and attention.
std::vector<Block> qkv_blocks(const HeadLayout& whole, const PlacementCall& call);

}  // namespace tessera
