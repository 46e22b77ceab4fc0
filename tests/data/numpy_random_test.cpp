#include "tessera/data/numpy_random.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tessera {
namespace {

std::vector<int> shuffled(std::uint32_t seed) {
  std::vector<int> values(10);
  std::iota(values.begin(), values.end(), 0);
  NumpyRandom(seed).shuffle(std::span(values));
  return values;
}

// numpy.random.RandomState(seed).shuffle(numpy.arange(10)), NumPy 2.4.
TEST(NumpyRandom, ShufflesAsNumpyDoes) {
  EXPECT_EQ(shuffled(0), (std::vector{2, 8, 4, 9, 1, 6, 7, 3, 0, 5}));
  EXPECT_EQ(shuffled(1), (std::vector{2, 9, 6, 4, 0, 3, 1, 7, 8, 5}));
  EXPECT_EQ(shuffled(4294967295u), (std::vector{6, 9, 5, 1, 8, 0, 7, 4, 2, 3}));
}

// numpy.random.RandomState(5).randint(0, 2**33 + 12345, size=5, dtype=numpy.int64), which draws as a shuffle
// of more than 2^32 elements does.
TEST(NumpyRandom, DrawsBeyond32Bits) {
  NumpyRandom random(5);
  for (const std::uint64_t expected :
       std::vector<std::uint64_t>{4206684233u, 385778404u, 7084371943u, 3519608859u, 1041703117u})
    EXPECT_EQ(random.at_most((std::uint64_t{1} << 33) + 12344), expected);
}

TEST(NumpyRandom, DrawsNothingForOneChoice) {
  NumpyRandom random(9), other(9);
  EXPECT_EQ(random.at_most(0), 0u);
  std::vector<int> none, one = {4};
  random.shuffle(std::span(none));
  random.shuffle(std::span(one));
  EXPECT_EQ(random.at_most(1000), other.at_most(1000));
}

}  // namespace
}  // namespace tessera
