// exp, tanh, erf and sigmoid for float without branches or calls, so that GCC vectorises the loops of
// activation and softmax kernels that call them; the double overloads are the standard library's.
//
// Errors are below 2 units in the last place, sigmoid's below 2.5 (tests/backend_cpu/vector_math_test.cpp);
// infinities, NaN and denormal results come out as from <cmath>. The polynomials interpolate at Chebyshev
// nodes.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tessera::cpu {

// 2^n by its exponent bits; n in [-126, 127].
inline float power_of_two(std::int32_t n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
}

// x = n ln2 + r with |r| <= ln2 / 2, exp(x) = 2^n exp(r).
struct ReducedExp {
  // Adding it leaves the nearest integer n in the low mantissa bits, as n + 127: the exponent bits of 2^n.
  static constexpr float kRound = 0x1.8p23f + 127.0f;
  float shifted;  // n + kRound
  float exp_r;

  explicit ReducedExp(float x) {
    constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
    shifted = x * kLog2e + kRound;
    const float whole = shifted - kRound;
    const float r = (x - whole * kLn2High) - whole * kLn2Low;
    float p = 1.392618359e-03f;
    p = p * r + 8.363179053e-03f;
    p = p * r + 4.166655462e-02f;
    p = p * r + 1.666657699e-01f;
    p = p * r + 0.5f;
    exp_r = p * (r * r) + r + 1.0f;
  }
};

inline float exp(float x) {
  // Beyond these the result is infinite or zero. Written so that NaN fails both tests and passes through.
  x = x > 90.0f ? 90.0f : x;
  x = x < -105.0f ? -105.0f : x;
  const ReducedExp e(x);
  const std::int32_t n =
      std::bit_cast<std::int32_t>(e.shifted) - std::bit_cast<std::int32_t>(ReducedExp::kRound);
  // In two factors: 2^n alone leaves the range of float where the result is denormal or just finite.
  const std::int32_t half = n >> 1;
  return e.exp_r * power_of_two(half) * power_of_two(n - half);
}

// exp for x up to 80, as a softmax has once its maximum or log-sum is subtracted, in two thirds of the
// instructions. A result below 1.6e-38 becomes 0.
inline float bounded_exp(float x) {
  const ReducedExp e(x);
  // n + 127 becomes the exponent; the rest of kRound leaves the word. A product keeps every NaN, where a sum
  // of n and exp_r's exponent would make numbers of some.
  const float scale = std::bit_cast<float>(std::bit_cast<std::uint32_t>(e.shifted) << 23);
  return x < -87.0f ? 0.0f : e.exp_r * scale;
}

inline float sigmoid(float x) {
  const float e = exp(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

inline float tanh(float x) {
  const float t = std::fabs(x), z = x * x;
  float p = 2.269501633e-03f;
  p = p * z - 8.323186994e-03f;
  p = p * z + 2.176250288e-02f;
  p = p * z - 5.395846162e-02f;
  p = p * z + 1.333330015e-01f;
  p = p * z - 3.333333315e-01f;
  const float near_zero = t + t * z * p;
  const float far = 1.0f - 2.0f / (exp(2.0f * t) + 1.0f);
  return std::copysign(t < 0.625f ? near_zero : far, x);
}

// Near zero an odd polynomial; further out 1 - exp(-q(|x|)) with q fitted to -log(erfc).
inline float erf(float x) {
  const float t = std::fabs(x), z = x * x;
  float p = 8.351897059e-05f;
  p = p * z - 8.138792380e-04f;
  p = p * z + 5.200729666e-03f;
  p = p * z - 2.685929726e-02f;
  p = p * z + 1.128369415e-01f;
  p = p * z - 3.761263369e-01f;
  p = p * z + 1.283791666e-01f;
  const float near_zero = t + t * p;
  const float u = t > 4.0f ? 4.0f : t;  // erf(4) rounds to 1
  float q = -1.643569654e-06f;
  q = q * u + 4.617791279e-05f;
  q = q * u - 5.977434720e-04f;
  q = q * u + 4.763575249e-03f;
  q = q * u - 2.643101760e-02f;
  q = q * u + 1.100944808e-01f;
  q = q * u + 6.318145167e-01f;
  q = q * u + 1.130237616e+00f;
  q = q * u - 3.204415313e-04f;
  const float far = 1.0f - bounded_exp(-q);
  return std::copysign(t < 0.92f ? near_zero : far, x);
}

inline double exp(double x) {
  return std::exp(x);
}
inline double bounded_exp(double x) {
  return std::exp(x);
}
inline double tanh(double x) {
  return std::tanh(x);
}
inline double erf(double x) {
  return std::erf(x);
}
inline double sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

}  // namespace tessera::cpu
