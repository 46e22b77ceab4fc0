#include "tessera/checkpoint/stored_dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tessera {
namespace {

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
TensorView view(std::vector<T>& values) {
  return {values.data(), dtype_of<T>, Shape{static_cast<std::int64_t>(values.size())}};
}

// The definition of IEEE binary16, digit by digit.
double naive_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) ? -1.0 : 1.0;
  if (exponent == 31) {
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(StoredDType, EveryHalfBecomesTheSameNumber) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> floats(halves.size());
  std::vector<double> doubles(halves.size());
  EXPECT_FALSE(convert_elements(bytes(halves), StoredDType::f16, view(floats)));
  EXPECT_FALSE(convert_elements(bytes(halves), StoredDType::f16, view(doubles)));
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const double expected = naive_half(halves[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(floats[i]) && std::isnan(doubles[i])) << i;
    } else {
      EXPECT_EQ(floats[i], expected) << i;
      EXPECT_EQ(doubles[i], expected) << i;
    }
    EXPECT_EQ(std::signbit(floats[i]), i >= 32768) << i;
  }
}

TEST(StoredDType, WideningKeepsEveryBitAndNarrowingRoundsToNearestEven) {
  const std::vector<double> stored = {0.1, 1.0 + 0x1p-8, 1.0 + 0x1p-7 + 0x1p-8, -1e-40, 1e300};
  std::vector<float> floats(stored.size());
  std::vector<Bf16> halves(stored.size());
  convert_elements(bytes(stored), StoredDType::f64, view(floats));
  convert_elements(bytes(stored), StoredDType::f64, view(halves));
  for (std::size_t i = 0; i < stored.size(); ++i) EXPECT_EQ(floats[i], static_cast<float>(stored[i]));
  EXPECT_EQ(static_cast<float>(halves[0]), 0x1.9ap-4f);
  EXPECT_EQ(static_cast<float>(halves[1]), 1.0f);            // a tie, down to even
  EXPECT_EQ(static_cast<float>(halves[2]), 1.0f + 0x1p-6f);  // a tie, up to even

  std::vector<double> back(stored.size());
  convert_elements(bytes(halves), StoredDType::bf16, view(back));
  for (std::size_t i = 0; i < stored.size(); ++i) EXPECT_EQ(back[i], static_cast<float>(halves[i]));
  std::vector<double> wide(stored.size());
  convert_elements(bytes(stored), StoredDType::f64, view(wide));
  EXPECT_EQ(wide, stored);
}

TEST(StoredDType, SourcesMayLieAtAnyAddress) {
  const std::vector<double> stored = {1.25, -2.5, 1e-3};
  std::vector<std::byte> shifted(stored.size() * sizeof(double) + 1);
  std::memcpy(shifted.data() + 1, stored.data(), stored.size() * sizeof(double));
  std::vector<float> floats(stored.size());
  convert_elements(std::span<const std::byte>(shifted).subspan(1), StoredDType::f64, view(floats));
  EXPECT_EQ(floats, (std::vector<float>{1.25f, -2.5f, 1e-3f}));
}

TEST(StoredDType, AnIntegerThatDoesNotFitIsReturned) {
  std::vector<std::int32_t> narrow(2);
  const std::vector<std::int64_t> fits = {std::numeric_limits<std::int32_t>::min(), 2147483647};
  EXPECT_FALSE(convert_elements(bytes(fits), StoredDType::i64, view(narrow)));
  EXPECT_EQ(narrow, (std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min(), 2147483647}));
  const std::vector<std::int64_t> beyond = {5, -2147483649};
  EXPECT_EQ(convert_elements(bytes(beyond), StoredDType::i64, view(narrow)), -2147483649);
}

TEST(StoredDType, NumbersDoNotChangeKind) {
  for (const DType real : {DType::f32, DType::bf16, DType::f64}) {
    EXPECT_TRUE(can_convert(StoredDType::f16, real));
    EXPECT_FALSE(can_convert(StoredDType::i64, real));
    EXPECT_FALSE(can_convert(StoredDType::u8, real));
  }
  EXPECT_FALSE(can_convert(StoredDType::f32, DType::i32));
  EXPECT_TRUE(can_convert(StoredDType::i64, DType::i32));
}

TEST(StoredDType, NamesAreFoundAgain) {
  for (int i = 0; i <= static_cast<int>(StoredDType::u64); ++i) {
    const auto dtype = static_cast<StoredDType>(i);
    EXPECT_EQ(find_stored_dtype(stored_dtype_name(dtype)), dtype);
  }
  EXPECT_FALSE(find_stored_dtype("F7"));
}

}  // namespace
}  // namespace tessera
