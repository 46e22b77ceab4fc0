#include "tessera/base/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

// Over all random bits: to the upper neighbour exactly as often as the float is nearer to it.
TEST(StochasticRounding, ByNearness) {
  for (float value : {1.00001f, -3.14159f, 1e-30f, 0.0f, 2.0f, 65504.7f}) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t away = 0;
    for (std::uint32_t random = 0; random < 65536; ++random) {
      const std::uint16_t rounded = round_stochastically(bits, random);
      ASSERT_TRUE(rounded == bits >> 16 || rounded == (bits >> 16) + 1);
      away += rounded != bits >> 16;
    }
    EXPECT_EQ(away, bits & 0xffffu) << value;
  }
}

TEST(StochasticRounding, KeepsInfinitiesAndNans) {
  for (std::uint32_t random : {0u, 1u, 0x8000u, 0xffffu}) {
    EXPECT_EQ(round_stochastically(0x7f800000u, random), 0x7f80u);
    EXPECT_EQ(round_stochastically(0xff800000u, random), 0xff80u);
    for (std::uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
      const auto rounded = std::uint32_t{round_stochastically(nan, random)} << 16;
      EXPECT_TRUE(std::isnan(std::bit_cast<float>(rounded)));
    }
  }
}

TEST(StochasticRounding, BitsAreOfParameterStepAndElement) {
  const PhiloxBlock words = rounding_words(1, 2, 3);
  EXPECT_EQ(words, rounding_words(1, 2, 3));
  EXPECT_NE(words, rounding_words(2, 2, 3));
  EXPECT_NE(words, rounding_words(1, 3, 3));
  EXPECT_NE(words, rounding_words(1, 2, 4));
}

// Of weight and moments: uniform, and no two of them alike.
TEST(StochasticRounding, BitsAreUniformAndApart) {
  constexpr int kGroups = 20000, kCount = 4 * kGroups;
  double sums[3] = {}, products[3] = {};
  for (std::uint64_t group = 0; group < kGroups; ++group) {
    for (std::uint32_t word : rounding_words(5, 6, group)) {
      const double x[3] = {weight_bits(word) / 65536.0 - 0.5, moment1_bits(word) / 65536.0 - 0.5,
                           moment2_bits(word) / 65536.0 - 0.5};
      for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(-0.5 <= x[i] && x[i] < 0.5);
        sums[i] += x[i];
        products[i] += x[i] * x[(i + 1) % 3];
      }
    }
  }
  const double deviation = 1 / std::sqrt(12.0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(sums[i] / kCount, 0, 5 * deviation / std::sqrt(kCount));
    EXPECT_NEAR(products[i] / kCount, 0, 5 * deviation * deviation / std::sqrt(kCount));
  }
}

}  // namespace
}  // namespace tessera
