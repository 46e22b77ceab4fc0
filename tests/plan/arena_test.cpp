#include "tessera/plan/arena.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tessera/base/alignment.h"

namespace tessera {
namespace {

bool together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(Arena, RandomLifetimesNeverOverlap) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    std::vector<Lifetime> lives(1 + below(60));
    for (Lifetime& life : lives) {
      life.first = static_cast<std::int32_t>(below(40));
      life.last = life.first + static_cast<std::int32_t>(below(8));
      life.bytes = static_cast<std::int64_t>(below(5) == 0 ? below(100000) : 256 * below(8));
    }
    const std::int64_t total = pack(lives);
    std::int64_t bound = 0;
    for (std::int32_t t = 0; t < 48; ++t) {
      std::int64_t live = 0;
      for (const Lifetime& life : lives) {
        if (life.first <= t && t <= life.last) live += life.bytes;
      }
      bound = std::max(bound, live);
    }
    EXPECT_GE(total, bound) << "seed " << seed;
    for (std::size_t i = 0; i < lives.size(); ++i) {
      const Lifetime& a = lives[i];
      EXPECT_EQ(a.offset % kAlignment, 0);
      EXPECT_LE(a.offset + a.bytes, total);
      for (std::size_t k = 0; k < i; ++k) {
        const Lifetime& b = lives[k];
        if (!together(a, b) || a.bytes == 0 || b.bytes == 0) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
            << "seed " << seed << ": " << i << " and " << k;
      }
    }
  }
}

TEST(Arena, ValuesThatNeverMeetShareTheirBytes) {
  std::vector<Lifetime> lives = {{0, 1, 1000}, {2, 3, 1000}, {4, 4, 500}};
  EXPECT_EQ(pack(lives), 1024);
  for (const Lifetime& life : lives) EXPECT_EQ(life.offset, 0);
}

TEST(Arena, FillsAGap) {
  // The large ones leave 512 bytes between them while the small one lives.
  std::vector<Lifetime> lives = {{0, 9, 4096}, {0, 3, 512}, {0, 9, 2048}, {4, 9, 300}};
  EXPECT_EQ(pack(lives), 4096 + 2048 + 512);
  EXPECT_EQ(lives[1].offset, lives[3].offset);
}

TEST(Arena, NothingNeedsNothing) {
  EXPECT_EQ(pack({}), 0);
}

}  // namespace
}  // namespace tessera
