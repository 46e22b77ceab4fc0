// Shards against a map made element by element: who holds what, where, and who is the first to hold it.
#include "tessera/graph/placement.h"

#include <gtest/gtest.h>

#include <random>

#include "tessera/ops/attention.h"
#include "tessera/ops/heads.h"

namespace tessera {
namespace {

// Which whole index of the cut dim each local one is, by rank; -1 for padding.
using DimMap = std::vector<std::vector<std::int64_t>>;

// Deals out the pieces of every block like cards, `copies` times each, `held` to a rank.
DimMap naive_dim_map(const std::vector<Block>& blocks, int num_ranks) {
  DimMap map(static_cast<std::size_t>(num_ranks));
  std::int64_t block_begin = 0;
  for (const Block& block : blocks) {
    const std::int64_t width = (block.size + block.pieces - 1) / block.pieces;
    const std::int64_t copies = num_ranks * block.held / block.pieces;
    std::vector<std::int64_t> dealt;
    for (std::int64_t piece = 0; piece < block.pieces; ++piece) {
      dealt.insert(dealt.end(), static_cast<std::size_t>(copies), piece);
    }
    for (std::size_t i = 0; i < dealt.size(); ++i) {
      for (std::int64_t k = 0; k < width; ++k) {
        const std::int64_t index = dealt[i] * width + k;
        map[i / static_cast<std::size_t>(block.held)].push_back(index < block.size ? block_begin + index
                                                                                   : -1);
      }
    }
    block_begin += block.size;
  }
  return map;
}

void expect_same_map(const Shape& whole, const Placement& placement, int num_ranks) {
  const DimMap dims = naive_dim_map(placement.blocks, num_ranks);
  const Shape local = local_shape(whole, placement);
  std::int64_t outer = 1, inner = 1;
  for (int d = 0; d < placement.dim; ++d) outer *= whole[d];
  for (int d = placement.dim + 1; d < whole.rank(); ++d) inner *= whole[d];
  std::vector<int> first_copies(static_cast<std::size_t>(whole.num_elems()), 0);
  std::vector<int> holders(first_copies.size(), 0), wanted_holders(first_copies.size(), 0);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::vector<std::int64_t>& dim = dims[static_cast<std::size_t>(rank)];
    ASSERT_EQ(local[placement.dim], static_cast<std::int64_t>(dim.size()));
    std::vector<std::int64_t> wanted, found(static_cast<std::size_t>(local.num_elems()), -1);
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t index : dim) {
        for (std::int64_t i = 0; i < inner; ++i) {
          wanted.push_back(index < 0 ? -1 : (o * whole[placement.dim] + index) * inner + i);
          if (index >= 0) ++wanted_holders[static_cast<std::size_t>(wanted.back())];
        }
      }
    }
    std::int64_t end = 0;
    for_each_shard_run(whole, placement, num_ranks, rank, [&](const ShardRun& run) {
      EXPECT_GE(run.local_offset, end) << "runs come in the order of the shard";
      end = run.local_offset + run.count;
      for (std::int64_t i = 0; i < run.count; ++i) {
        const auto at = static_cast<std::size_t>(run.whole_offset + i);
        found[static_cast<std::size_t>(run.local_offset + i)] = run.whole_offset + i;
        ++holders[at];
        first_copies[at] += run.first_copy;
      }
    });
    EXPECT_EQ(found, wanted) << "rank " << rank;
  }
  EXPECT_EQ(holders, wanted_holders);
  for (std::size_t i = 0; i < holders.size(); ++i) {
    ASSERT_GE(holders[i], 1) << "nobody has element " << i;
    ASSERT_EQ(first_copies[i], placement.copies_agree ? 1 : holders[i]) << "element " << i;
  }
}

TEST(Placement, RandomShardsAgreeWithAMapMadeElementByElement) {
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 500; ++round) {
    const auto num_ranks = static_cast<int>(1 + below(8));
    std::vector<Block> blocks;
    std::int64_t size = 0;
    for (std::int64_t count = 1 + below(3); count > 0; --count) {
      // Pieces that divide the places for them; sizes that need not divide into the pieces.
      const std::int64_t held = 1 + below(3), places = num_ranks * held;
      std::int64_t pieces = places;
      while (below(2) == 0 && pieces > 1) pieces = places / (1 + below(places));
      if (places % pieces != 0) pieces = places;
      const Block block{1 + below(20), pieces, held};
      blocks.push_back(block);
      size += block.size;
    }
    const int rank = static_cast<int>(1 + below(3)), dim = static_cast<int>(below(rank));
    Shape whole;
    for (int d = 0; d < rank; ++d) whole.push_back(d == dim ? size : 1 + below(4));
    Placement placement = shard(dim, blocks);
    placement.copies_agree = below(2) == 0;
    SCOPED_TRACE(
        fmt::format("round {}: {} {} on {} ranks", round, whole.text(), placement.text(), num_ranks));
    expect_same_map(whole, placement, num_ranks);
    if (HasFailure()) return;
  }
}

TEST(Placement, ReplicatedPartialAndFlat) {
  const Shape whole{3, 5};
  for (int rank = 0; rank < 4; ++rank) {
    const auto runs = [&](const Placement& placement) {
      std::vector<ShardRun> found;
      for_each_shard_run(whole, placement, 4, rank, [&](const ShardRun& run) { found.push_back(run); });
      return found;
    };
    const std::vector<ShardRun> everywhere = runs(replicated()), term = runs(partial_sum()),
                                range = runs(flat_shard());
    ASSERT_EQ(everywhere.size(), 1u);
    EXPECT_EQ(everywhere[0].count, 15);
    EXPECT_EQ(everywhere[0].first_copy, rank == 0);
    ASSERT_EQ(term.size(), 1u);
    EXPECT_TRUE(term[0].first_copy);
    ASSERT_EQ(range.size(), 1u);  // 4, 4, 4, 3
    EXPECT_EQ(range[0].whole_offset, 4 * rank);
    EXPECT_EQ(range[0].count, rank == 3 ? 3 : 4);
  }
  EXPECT_EQ(local_shape(whole, flat_shard()), whole);
  EXPECT_EQ(flat_range_size(15, 4), 4);
}

struct HeadCase {
  std::int64_t heads, kv_heads;
  int tp;
};

// Every rank's query heads read the key and value heads that they read in the whole.
TEST(HeadLayout, QueriesKeepTheirKeys) {
  for (const HeadCase& c : std::vector<HeadCase>{{6, 2, 3},
                                                 {6, 2, 6},
                                                 {6, 2, 2},
                                                 {8, 4, 8},
                                                 {8, 2, 4},
                                                 {8, 8, 4},
                                                 {8, 1, 8},
                                                 {12, 3, 4},
                                                 {12, 4, 6},
                                                 {12, 2, 3},
                                                 {64, 8, 16}}) {
    SCOPED_TRACE(fmt::format("{} heads, {} key heads, tp {}", c.heads, c.kv_heads, c.tp));
    const HeadLayout whole{c.heads, c.kv_heads, 3};
    const Node node{.op = Op::attention, .name = "attention", .attrs = AttentionAttrs{whole}};
    const PlacementCall call{node, {}, {}, Axis::tp, c.tp};
    const HeadLayout local = local_heads(whole, call);
    const std::vector<Block> blocks = qkv_blocks(whole, call);
    ASSERT_TRUE(local.valid());
    ASSERT_EQ(blocks.size(), 3u);
    const DimMap columns = naive_dim_map(blocks, c.tp);
    for (int rank = 0; rank < c.tp; ++rank) {
      const std::vector<std::int64_t>& mine = columns[static_cast<std::size_t>(rank)];
      ASSERT_EQ(static_cast<std::int64_t>(mine.size()), local.qkv_columns());
      const auto head_at = [&](std::int64_t local_head) {
        return mine[static_cast<std::size_t>(local_head * whole.head_dim)] / whole.head_dim;
      };
      for (std::int64_t h = 0; h < local.heads; ++h) {
        const std::int64_t query = head_at(h), kv = h / (local.heads / local.kv_heads);
        EXPECT_EQ(query, rank * local.heads + h);
        const std::int64_t wanted = query / (c.heads / c.kv_heads);
        EXPECT_EQ(head_at(local.heads + kv), c.heads + wanted) << "key of query " << query;
        EXPECT_EQ(head_at(local.heads + local.kv_heads + kv), c.heads + c.kv_heads + wanted);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
