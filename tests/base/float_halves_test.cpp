#include "tessera/base/float_halves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/bf16.h"
#include "tessera/base/philox.h"

namespace tessera {
namespace {

std::uint32_t joined_again(std::uint32_t bits) {
  return join_halves(Bf16(std::bit_cast<float>(bits)).bits, low_half(bits));
}

TEST(FloatHalves, JoinToTheFloat) {
  for (std::uint64_t i = 0; i < 100000; ++i) {
    for (std::uint32_t bits : philox(1, i)) {
      const auto value = std::bit_cast<float>(bits);
      if (std::isnan(value) || (bits & 0x1ffffu) == 0x8000u) continue;
      ASSERT_EQ(joined_again(bits), bits) << value;
    }
  }
  using Limits = std::numeric_limits<float>;
  for (float value : {0.0f, -0.0f, 1.0f, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min(),
                      Limits::infinity(), -Limits::infinity()}) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    EXPECT_EQ(joined_again(bits), bits) << value;
  }
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(joined_again(0x7fffffffu))));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(joined_again(0xff800001u))));
}

// Of a tie that goes down one unit of the float's last place is given up, once; one that goes up is exact.
TEST(FloatHalves, Ties) {
  for (std::uint32_t high : {0x3f80u, 0xbf80u, 0x0000u, 0x4242u}) {
    const std::uint32_t down = high << 16 | 0x8000u, up = (high + 1) << 16 | 0x8000u;
    EXPECT_EQ(joined_again(down), down - 1);
    EXPECT_EQ(joined_again(down - 1), down - 1);
    EXPECT_EQ(joined_again(up), up);
    // What is joined has the same rounding.
    EXPECT_EQ(Bf16(std::bit_cast<float>(down - 1)).bits, Bf16(std::bit_cast<float>(down)).bits);
  }
}

}  // namespace
}  // namespace tessera
