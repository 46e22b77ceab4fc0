// What the collectives refuse; what they compute and where they are put is tested in tests/partition.
#include "tessera/ops/collectives.h"

#include "ops/op_check.h"

namespace tessera {

OpFamily collectives_family() {
  OpFamily family;
  const CollectiveAttrs rows{
      .num_ranks = 2, .axis_ranks = 2, .placement = shard(0, even_cut(6, 2)), .whole = {6, 3}};
  family.refused = {
      {Op::all_reduce, CollectiveAttrs{}, {f64({2}), i32({2})}, {"i32", "floating"}},
      {Op::reduce_scatter_flat, CollectiveAttrs{}, {i32({2})}, {"i32", "floating"}},
      {Op::all_gather_flat, CollectiveAttrs{}, {i32({2})}, {"i32", "floating"}},
      {Op::keep_first, CollectiveAttrs{}, {i32({2})}, {"i32", "floating"}},
      {Op::reduce_scatter, rows, {f64({5, 3})}, {"[5,3]", "[6,3]"}},
      {Op::shard_slice, rows, {f64({3, 3})}, {"[3,3]", "[6,3]"}},
      {Op::all_gather, rows, {f64({6, 3})}, {"[6,3]", "[3,3]"}},
      {Op::reduce_copies, rows, {f64({6, 3})}, {"[6,3]", "[3,3]"}},
  };
  return family;
}

}  // namespace tessera
