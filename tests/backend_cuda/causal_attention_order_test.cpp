#include "tessera/backend/cuda/causal_attention_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>
#include <utility>
#include <vector>

namespace tessera::cuda {
namespace {

constexpr std::int64_t kHeadBytes = std::int64_t{2} << 20;  // 4096 keys and values of 128 bf16

std::vector<QueryTile> all_items(const QueryTileOrder& order) {
  std::vector<QueryTile> items;
  for (int i = 0; i < order.items(); ++i) items.push_back(order.item(i));
  return items;
}

using ThreeGroups = QueryTiles<3, 64, 128>;

TEST(QueryTiles, HaveEveryQueryInOneGroupThatSeesItsKeys) {
  for (const int seq : {1, 63, 64, 65, 128, 200, 384, 1000, 1024, 1025}) {
    const ThreeGroups tiles{seq};
    int next = 0;
    for (int tile = 0; tile < tiles.count; ++tile) {
      for (int group = 0; group < 3; ++group) {
        const int first = tiles.first_row(tile, group), blocks = tiles.key_blocks(tile, group);
        if (first < 0) {
          EXPECT_TRUE(tile == 0 && blocks == 0) << seq;
          continue;
        }
        EXPECT_EQ(first, next) << seq;
        next = std::min(first + 64, seq);
        EXPECT_EQ(blocks, (next + 127) / 128) << seq;         // the last query's own key is in the last block
        EXPECT_GE(first + 1, (blocks - 1) * 128 + 1) << seq;  // and so is the first one's
      }
    }
    EXPECT_EQ(next, seq);
  }
}

// GPT-2's 1024 positions are 16 groups: two of the first tile's have no queries, and no other group walks for
// nothing.
TEST(QueryTiles, WalkForNothingWhereWalksAreShort) {
  const ThreeGroups tiles{1024};
  EXPECT_EQ(tiles.count, 6);
  int walked = 0, needed = 0;
  for (int tile = 0; tile < 6; ++tile) {
    for (int group = 0; group < 3; ++group) {
      walked += tiles.key_blocks(tile, 2);
      needed += tiles.key_blocks(tile, group);
    }
  }
  EXPECT_EQ(tiles.first_row(0, 2), 0);
  EXPECT_EQ(needed, 72);
  EXPECT_LE(walked, 84);
}

TEST(CausalAttentionOrder, HasEveryTileOnce) {
  for (const QueryTileOrder& order : {QueryTileOrder{1, 1, 1},
                                      {28, 32, kHeadBytes},
                                      {17, 3, kHeadBytes},
                                      {5, 7, std::int64_t{64} << 20},
                                      {400, 6, 1 << 18}}) {
    std::set<std::pair<int, int>> seen;
    for (const QueryTile& item : all_items(order)) {
      EXPECT_TRUE(item.head >= 0 && item.head < order.heads && item.tile >= 0 && item.tile < order.tiles);
      EXPECT_TRUE(seen.emplace(item.head, item.tile).second) << item.head << ", " << item.tile;
    }
    EXPECT_EQ(static_cast<int>(seen.size()), order.items());
  }
}

TEST(CausalAttentionOrder, KeepsToHeadsThatFitIntoTheCache) {
  const QueryTileOrder order{40, 32, kHeadBytes};
  const std::vector<QueryTile> items = all_items(order);
  for (std::size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(items[i].head / 16, static_cast<int>(i) / (16 * 32));
  }
}

// Llama-2 7B's two sequences on an H200: tile n walks over n + 1 blocks of keys, and the thread block that is
// free first takes the next one.
TEST(CausalAttentionOrder, EndsEvenly) {
  const QueryTileOrder order{64, 32, kHeadBytes};
  std::priority_queue<int, std::vector<int>, std::greater<>> free_at;
  for (int i = 0; i < 132; ++i) free_at.push(0);
  int last = 0, total = 0;
  for (const QueryTile& item : all_items(order)) {
    const int end = free_at.top() + item.tile + 1;
    free_at.pop();
    free_at.push(end);
    last = std::max(last, end);
    total += item.tile + 1;
  }
  EXPECT_LE(last, 1.02 * total / 132);
}

}  // namespace
}  // namespace tessera::cuda
