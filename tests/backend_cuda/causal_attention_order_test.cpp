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
