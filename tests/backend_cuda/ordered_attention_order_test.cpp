// The order of attention's gradient, played through on the host: thread blocks take items, work one step per
// tick, if they are not late, and add to a tile when it is their turn. (Those on the GPU take the next item a
// little before they are done with one.)
#include "tessera/backend/cuda/ordered_attention_order.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace tessera::cuda {
namespace {

struct Played {
  int ticks = 0;
  int waits = 0;  // of thread blocks, in ticks
  bool ended = true;
  std::map<std::pair<int, int>, std::vector<int>> adders;  // of a head's tile: blocks of keys, as they came
};

template <int kDims>
class Player {
 public:
  // `lateness`: how often a worker misses a tick.
  Player(const GradOrder<kDims>& order, int workers, double lateness = 0)
      : order_(order), workers_(static_cast<std::size_t>(workers)), late_(lateness) {}

  Played play() { return play_items(order_.items()); }
  // The first ones alone.
  Played play_items(int num_items) {
    num_items_ = num_items;
    for (bool working = true; working; ++played_.ticks) {
      working = false;
      bool all_wait = true;
      std::vector<std::pair<std::pair<int, int>, int>> added;  // seen from the next tick on
      for (Worker& worker : workers_) {
        if (!has_step(worker)) continue;
        working = true;
        if (late_(random_)) {
          all_wait = false;
          continue;
        }
        const int tile = worker.pass.tile(worker.step);
        const std::pair key(worker.pass.head, tile);
        if (std::ssize(played_.adders[key]) != order_.turn(worker.pass, tile)) {
          ++played_.waits;
          continue;
        }
        added.emplace_back(key, worker.pass.block);
        ++worker.step;
        all_wait = false;
      }
      for (const auto& [key, block] : added) played_.adders[key].push_back(block);
      if (working && all_wait) {
        played_.ended = false;
        return played_;
      }
    }
    return played_;
  }

 private:
  struct Worker {
    int item = -1, which = 1, step = 0;
    Pass pass;
  };
  // Goes on to the next pass, or to the next item.
  bool has_step(Worker& worker) {
    while (worker.step == worker.pass.num_tiles) {
      if (worker.which == 1) {
        if (next_item_ == num_items_) return false;
        worker.item = next_item_++;
        worker.which = 0;
      } else {
        worker.which = 1;
      }
      worker.pass = order_.pass(worker.item, worker.which);
      worker.step = 0;
    }
    return true;
  }

  GradOrder<kDims> order_;
  std::vector<Worker> workers_;
  std::bernoulli_distribution late_;
  std::mt19937 random_{1};
  int next_item_ = 0, num_items_ = 0;
  Played played_;
};

template <int kDims>
void expect_every_turn_comes(int heads, int seq, int workers, double lateness) {
  SCOPED_TRACE(testing::Message() << "heads " << heads << ", T " << seq << ", workers " << workers);
  const GradOrder<kDims> order{heads, seq};
  const Played played = Player(order, workers, lateness).play();
  ASSERT_TRUE(played.ended) << "thread blocks wait for one another";
  for (int head = 0; head < heads; ++head) {
    for (int tile = 0; tile < order.tiles(); ++tile) {
      const auto found = played.adders.find({head, tile});
      ASSERT_NE(found, played.adders.end());
      const std::set<int> blocks(found->second.begin(), found->second.end());
      const int diagonal = (tile * order.kQueries + order.kQueries - 1) / kBlockKeys;
      ASSERT_EQ(std::ssize(found->second), diagonal + 1) << "tile " << tile;  // each of them once
      EXPECT_EQ(std::ssize(blocks), diagonal + 1) << "tile " << tile;
      EXPECT_EQ(*blocks.rbegin(), diagonal) << "tile " << tile;
    }
  }
}

TEST(OrderedAttentionOrder, EveryBlockAddsOnceWhateverRunsAtOnce) {
  for (const int workers : {1, 2, 3, 7, 132}) {
    for (const int heads : {1, 2, 5, 71}) {
      for (const int seq : {1, 64, 65, 128, 129, 777, 2048}) {
        for (const double lateness : {0.0, 0.3}) {
          expect_every_turn_comes<64>(heads, seq, workers, lateness);
          expect_every_turn_comes<128>(heads, seq, workers, lateness);
        }
      }
    }
  }
}

// The ticks that the tiles would take as many workers as an H200 has multiprocessors, if nobody ever waited
// or ended before the others, over those that they take.
template <int kDims>
double share_of_ticks_needed(int heads, int seq) {
  const GradOrder<kDims> order{heads, seq};
  int tiles = 0;
  for (int item = 0; item < order.items(); ++item) {
    for (int which = 0; which < 2; ++which) tiles += order.pass(item, which).num_tiles;
  }
  constexpr int kWorkers = 132;
  return static_cast<double>(tiles) / kWorkers / (Player(order, kWorkers).play().ticks - 1);
}

TEST(OrderedAttentionOrder, WorkersHardlyWaitAndEndTogether) {
  EXPECT_GT(share_of_ticks_needed<128>(64, 4096), 0.98);      // Llama-2 7B, two sequences
  EXPECT_GT(share_of_ticks_needed<128>(32, 4096), 0.97);      // and one
  EXPECT_GT(share_of_ticks_needed<128>(28, 4096), 0.96);      // Qwen2.5 7B
  EXPECT_GT(share_of_ticks_needed<64>(16 * 25, 1024), 0.98);  // GPT-2 XL
}

TEST(OrderedAttentionOrder, NobodyWaitsIfAllItemsOfAPairRunAtOnce) {
  const GradOrder<128> wide{46, 4096};
  ASSERT_EQ(wide.paired_items(), 16 * wide.blocks());
  const Played played = Player(wide, 4 * wide.blocks()).play_items(wide.paired_items());
  EXPECT_EQ(played.waits, 0);
  EXPECT_EQ(played.ticks - 1, 4 * (wide.tiles() + 2));  // 16 pairs on 4 at a time: nobody is idle either
  const GradOrder<64> narrow{74, 1024};
  ASSERT_EQ(narrow.paired_items(), 12 * narrow.blocks());
  EXPECT_EQ(Player(narrow, 3 * narrow.blocks()).play_items(narrow.paired_items()).waits, 0);
}

// The order of additions does not depend on how many thread blocks run.
TEST(OrderedAttentionOrder, IsTheSameForAnyNumberOfThreadBlocks) {
  const GradOrder<128> order{4, 1000};
  EXPECT_EQ(Player(order, 1).play().adders, Player(order, 132, 0.5).play().adders);
}

}  // namespace
}  // namespace tessera::cuda
