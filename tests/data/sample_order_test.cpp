#include "tessera/data/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera {
namespace {

std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t size, std::int64_t epoch) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < size; ++i) order.push_back(sample_at(seed, size, epoch * size + i));
  return order;
}

void expect_permutation(const std::vector<std::int64_t>& order) {
  std::vector<char> seen(order.size());
  for (const std::int64_t sample : order) {
    ASSERT_TRUE(sample >= 0 && sample < std::ssize(order));
    ASSERT_FALSE(seen[static_cast<std::size_t>(sample)]) << sample << " twice in " << order.size();
    seen[static_cast<std::size_t>(sample)] = 1;
  }
}

TEST(SampleOrder, EveryEpochIsAPermutation) {
  for (std::int64_t size = 1; size <= 300; ++size) {
    for (std::int64_t epoch : {0, 1, 5}) expect_permutation(epoch_order(7, size, epoch));
  }
  for (std::int64_t size : {1023, 1024, 1025, 4097, 65536, 100003})
    expect_permutation(epoch_order(1, size, 2));
}

TEST(SampleOrder, IsAFunctionOfSeedAndNumber) {
  EXPECT_EQ(epoch_order(1234, 1000, 3), epoch_order(1234, 1000, 3));
  EXPECT_NE(epoch_order(1234, 1000, 3), epoch_order(1235, 1000, 3));
  EXPECT_NE(epoch_order(1234, 1000, 3), epoch_order(1234, 1000, 4));
}

// A run's order is part of what a checkpoint resumes: these numbers, computed apart from this code, may
// never change.
TEST(SampleOrder, StaysTheSameForever) {
  EXPECT_EQ(epoch_order(1234, 10, 0), (std::vector<std::int64_t>{2, 1, 6, 4, 5, 8, 3, 7, 0, 9}));
  EXPECT_EQ(sample_at(1234, std::int64_t{1} << 40, 5), 212389340669);
}

TEST(SampleOrder, LargeCorporaStayInside) {
  const std::int64_t size = (std::int64_t{1} << 61) + 12345;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t sample = permute_index(9, size, i);
    ASSERT_TRUE(sample >= 0 && sample < size);
  }
}

// Over many epochs each sample comes first, and follows sample 0, equally often. Chi-square with its
// 1 - 1e-6 quantile by Wilson and Hilferty; the order is fixed, so this passes always or never.
TEST(SampleOrder, EpochsAreUniform) {
  constexpr std::int64_t kEpochs = 20000;
  for (std::int64_t size : {2, 3, 5, 8, 17, 64}) {
    std::vector<double> first(static_cast<std::size_t>(size)), follows(static_cast<std::size_t>(size));
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const auto order = epoch_order(42, size, epoch);
      first[static_cast<std::size_t>(order[0])] += 1;
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (order[i] == 0) follows[static_cast<std::size_t>(order[(i + 1) % order.size()])] += 1;
      }
    }
    const auto chi_square = [](const std::vector<double>& counts, std::size_t from) {
      const double expected = static_cast<double>(kEpochs) / static_cast<double>(counts.size() - from);
      double sum = 0;
      for (std::size_t i = from; i < counts.size(); ++i) sum += std::pow(counts[i] - expected, 2) / expected;
      return sum;
    };
    const auto bound = [](double freedom) {
      const double a = 2 / (9 * freedom);
      return freedom * std::pow(1 - a + 4.7534 * std::sqrt(a), 3);
    };
    EXPECT_LT(chi_square(first, 0), bound(static_cast<double>(size - 1))) << size;
    if (size == 2) continue;  // sample 1 always follows sample 0
    EXPECT_LT(chi_square(follows, 1), bound(static_cast<double>(size - 2))) << size;
  }
}

}  // namespace
}  // namespace tessera
