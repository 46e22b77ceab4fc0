#include "tessera/data/shuffle_order.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Order = std::vector<std::int64_t>;

// a = list(range(12)); random.Random(seed).shuffle(a), Python 3.11.
TEST(PythonShuffle, IsPythons) {
  EXPECT_EQ(python_shuffle(0, 12), (Order{1, 9, 8, 5, 10, 2, 3, 7, 4, 0, 11, 6}));
  EXPECT_EQ(python_shuffle(1, 12), (Order{7, 11, 0, 8, 5, 6, 3, 10, 4, 1, 9, 2}));
  EXPECT_EQ(python_shuffle(5, 12), (Order{10, 2, 11, 7, 1, 3, 6, 0, 8, 5, 4, 9}));
  EXPECT_EQ(python_shuffle(std::uint64_t{1} << 40, 12), (Order{10, 9, 2, 7, 4, 8, 3, 0, 6, 11, 5, 1}));
  EXPECT_EQ(python_shuffle(3, 1), (Order{0}));
  EXPECT_EQ(python_shuffle(3, 0), Order{});
}

// torch.randperm(size, generator=torch.Generator().manual_seed(seed)), PyTorch 1.13.
TEST(TorchPermutation, IsTorchs) {
  EXPECT_EQ(torch_permutation(0, 10), (Order{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(torch_permutation(7, 10), (Order{5, 0, 3, 4, 1, 7, 9, 6, 8, 2}));
  EXPECT_EQ(torch_permutation(0, 37),
            (Order{21, 28, 30, 19, 23, 32, 4, 20, 6,  1,  36, 35, 18, 9,  34, 0, 14, 25, 10,
                   22, 7,  13, 33, 17, 3,  2, 11, 12, 16, 29, 31, 8,  26, 24, 5, 27, 15}));
}

}  // namespace
}  // namespace tessera
