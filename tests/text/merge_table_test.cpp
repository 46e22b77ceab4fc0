#include "tessera/text/merge_table.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "text/naive_bpe.h"

namespace tessera {
namespace {

// A random list of merges over a few letters, each of two ids that exist before it.
std::vector<BpeMerge> random_merges(std::mt19937_64& random, int num_letters, int num_merges) {
  std::vector<BpeMerge> merges;
  std::set<std::pair<std::int32_t, std::int32_t>> seen;
  while (static_cast<int>(merges.size()) < num_merges) {
    const int num_ids = num_letters + static_cast<int>(merges.size());
    const auto pick = [&] { return static_cast<std::int32_t>(random() % static_cast<unsigned>(num_ids)); };
    const std::int32_t left = pick();
    const std::int32_t right = pick();
    if (seen.insert({left, right}).second) merges.push_back({left, right, num_ids});
  }
  return merges;
}

void expect_naive_result(const std::vector<BpeMerge>& merges, std::vector<std::int32_t> ids) {
  std::vector<std::int32_t> expected = ids;
  naive_merge(merges, expected);
  ids.resize(MergeTable(merges).merge(ids));
  ASSERT_EQ(ids, expected);
}

TEST(MergeTable, MergesLikeTheNaiveLoop) {
  std::mt19937_64 random(30);
  for (int i = 0; i < 2000; ++i) {
    auto merges = random_merges(random, 4, 1 + static_cast<int>(random() % 40));
    // In a foreign list a merge may stand before the one that makes its part; the rule is the same.
    if (i % 2 == 1) std::shuffle(merges.begin(), merges.end(), random);
    std::vector<std::int32_t> ids(random() % 140);  // short and long pieces
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 4);
    expect_naive_result(merges, ids);
  }
}

TEST(MergeTable, MergesRunsOfOneLetterFromTheLeft) {
  const std::vector<BpeMerge> merges = {{0, 0, 1}, {1, 1, 2}, {2, 0, 3}};
  for (std::size_t length = 0; length < 120; ++length) {
    expect_naive_result(merges, std::vector<std::int32_t>(length, 0));
  }
}

TEST(MergeTable, KeepsIdsWithoutMerges) {
  expect_naive_result({}, {1, 2, 3});
}

}  // namespace
}  // namespace tessera
