// The float functions against double <cmath>, over all exponents and at the edges of the range.
#include "tessera/backend/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Error in units of the last place of the exact result (of the least denormal below the normal range).
double ulps(float found, double exact) {
  const double magnitude = std::max(std::fabs(exact), static_cast<double>(std::numeric_limits<float>::min()));
  const double ulp = std::exp2(std::floor(std::log2(magnitude)) - 23);
  return std::fabs(static_cast<double>(found) - exact) / ulp;
}

// Every 997th float of both signs up to `limit`.
template <class F, class G>
void expect_close(F function, G reference, float limit, double max_ulps) {
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits <= std::bit_cast<std::uint32_t>(limit); bits += 997) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-x.back());
  }
  std::vector<float> y(x.size());
#pragma omp simd
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = function(x[i]);
  double worst = 0;
  float worst_at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = reference(static_cast<double>(x[i]));
    if (std::fabs(exact) > static_cast<double>(std::numeric_limits<float>::max())) {
      ASSERT_TRUE(std::isinf(y[i])) << x[i];
      continue;
    }
    const double error = ulps(y[i], exact);
    ASSERT_FALSE(std::isnan(error)) << x[i];
    if (error > worst) {
      worst = error;
      worst_at = x[i];
    }
    ASSERT_EQ(function(x[i]), y[i]) << "scalar and vector code differ at " << x[i];
  }
  EXPECT_LE(worst, max_ulps) << "at " << worst_at;
}

constexpr float kMax = std::numeric_limits<float>::max();

TEST(VectorMath, Exp) {
  expect_close([](float x) { return exp(x); }, [](double x) { return std::exp(x); }, kMax, 2.0);
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_EQ(exp(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(exp(std::nanf(""))));
}

TEST(VectorMath, BoundedExp) {
  const auto exact = [](double x) { return x < -87 ? 0.0 : std::exp(x); };
  expect_close([](float x) { return bounded_exp(x < 80.0f ? x : 80.0f); },
               [&](double x) { return exact(std::min(x, 80.0)); }, kMax, 2.0);
  EXPECT_EQ(bounded_exp(0.0f), 1.0f);
  EXPECT_EQ(bounded_exp(-87.0f), exp(-87.0f));
  EXPECT_EQ(bounded_exp(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(bounded_exp(std::nanf(""))));
}

TEST(VectorMath, Tanh) {
  expect_close([](float x) { return tanh(x); }, [](double x) { return std::tanh(x); }, kMax, 2.0);
  EXPECT_EQ(tanh(kInfinity), 1.0f);
  EXPECT_EQ(tanh(-kInfinity), -1.0f);
  EXPECT_TRUE(std::signbit(tanh(-0.0f)));
  EXPECT_TRUE(std::isnan(tanh(std::nanf(""))));
}

TEST(VectorMath, Erf) {
  expect_close([](float x) { return erf(x); }, [](double x) { return std::erf(x); }, kMax, 2.0);
  EXPECT_EQ(erf(kInfinity), 1.0f);
  EXPECT_EQ(erf(-kInfinity), -1.0f);
  EXPECT_TRUE(std::signbit(erf(-0.0f)));
  EXPECT_TRUE(std::isnan(erf(std::nanf(""))));
}

TEST(VectorMath, Sigmoid) {
  expect_close([](float x) { return sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, kMax,
               2.5);
  EXPECT_EQ(sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(sigmoid(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(sigmoid(std::nanf(""))));
}

// Whatever their other bits: quiet and signalling, of both signs, with bits that could pass for an exponent.
TEST(VectorMath, EveryNaNStaysOne) {
  for (const std::uint32_t bits :
       {0x7fffffffu, 0xffffffffu, 0x7fc00000u, 0xffc00000u, 0x7fc00001u, 0x7fc0007fu, 0x7fc00080u,
        0x7fc000ffu, 0x7fc00100u, 0xffc001ffu, 0x7f800001u, 0xff8001feu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(exp(nan))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(bounded_exp(nan))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(tanh(nan))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(erf(nan))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(sigmoid(nan))) << std::hex << bits;
  }
}

TEST(VectorMath, DoubleIsTheStandardLibrary) {
  for (const double x : {-800.0, -3.0, -0.1, 0.0, 0.7, 5.0, 800.0}) {
    EXPECT_EQ(exp(x), std::exp(x));
    EXPECT_EQ(tanh(x), std::tanh(x));
    EXPECT_EQ(erf(x), std::erf(x));
    EXPECT_NEAR(sigmoid(x), 1 / (1 + std::exp(-x)), 1e-16);
  }
}

}  // namespace
}  // namespace tessera::cpu
