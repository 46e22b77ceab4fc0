// The collectives: ops that turn one placement into another. partition/ inserts them where a node reads a
// value otherwise than it lies; no layer and no optimizer mentions them.
//
//   all_reduce           partial -> replicated, in place; any number of tensors at once (a bucket)
//   reduce_scatter       partial -> shard
//   all_gather           shard -> replicated, padding cut off
//   shard_slice          replicated -> shard, local
//   keep_first           replicated -> partial, local: the first rank keeps it, the others hold zeros
//   reduce_copies        shard with unsummed copies -> the same with equal copies, in place
//   reduce_scatter_flat  partial -> shard(flat), in place, a bucket
//   all_gather_flat      shard(flat) -> replicated, in place, a bucket
#pragma once

#include "tessera/ops/cut_range.h"
#include "tessera/ops/op_def.h"

namespace tessera {

struct CollectiveAttrs {
  Group group = Group::tp;
  int num_ranks = 1;
  int axis_ranks = 1;        // of the axis that the placement is on; a `heads` group is a part of tp
  Placement placement = {};  // of the shard, where one is read or written
  Shape whole = {};          // shape without the cut
  std::string why = {};      // who needs it; for the report
  FlatRange range = {};      // all_reduce of ranges that lie in their whole's place
  void describe(AttrWriter& write) const {
    write("group", group_name(group));
    write("ranks", num_ranks);
    if (!placement.is_replicated()) write("placement", placement.text());
    range.describe(write);
  }
};

// What a node sends: for the report and for predictions. A ring's bytes, which are the least that each
// rank must send.
struct Traffic {
  Group group = Group::tp;
  std::string_view kind;     // "all_reduce"
  std::int64_t payload = 0;  // bytes of the whole tensors
  std::int64_t sent = 0;     // by each rank
};
std::int64_t all_reduce_bytes(std::int64_t payload, int num_ranks);  // 2 (n - 1) / n of the payload
std::int64_t gather_bytes(std::int64_t payload, int num_ranks);      // (n - 1) / n: gather and scatter alike

// Empty for a node that sends nothing.
std::vector<Traffic> node_traffic(const Graph& graph, const Node& node);

}  // namespace tessera
