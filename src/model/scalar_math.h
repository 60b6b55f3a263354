// exp and log without the C library, whose results differ between versions and machines: plain
// arithmetic in a fixed order, so every build and instruction set gives the same bits.
#ifndef TANDEM_MODEL_SCALAR_MATH_H_
#define TANDEM_MODEL_SCALAR_MATH_H_

#include <bit>
#include <cstdint>

namespace tandem::model {

// e to the x for x up to 0, within two units in the last place. Below -87, and for NaN, zero.
// Branch-free, so loops over it vectorise and give the same bits as single calls.
inline float ExpOfNegative(float x) {
  constexpr float kLog2E = 1.44269504F;
  // ln 2 in two parts; the first has so few bits that its product with n is exact.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  // Adding this rounds to an integer, which then lies in the low bits of the sum.
  constexpr float kRound = 0x1.8p23F;
  const float clamped = x > -87.0F ? x : -87.0F;
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float sum = 1.0F / 720.0F;
  sum = sum * r + 1.0F / 120.0F;
  sum = sum * r + 1.0F / 24.0F;
  sum = sum * r + 1.0F / 6.0F;
  sum = sum * r + 0.5F;
  sum = (sum * r) * r + r + 1.0F;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;
  const float power = std::bit_cast<float>(std::bit_cast<uint32_t>(sum) + exponent);
  return x > -87.0F ? power : 0.0F;
}

// The natural logarithm of a positive normal number, exact to about 15 digits.
inline double Log(double x) {
  constexpr double kLn2 = 0.6931471805599453;
  constexpr double kSqrt2 = 1.4142135623730951;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
  if (mantissa > kSqrt2) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log m = 2 artanh((m - 1) / (m + 1)), whose series converges fast for |s| below 0.172.
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = s * s;
  double series = 0.0;
  for (int k = 19; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return static_cast<double>(exponent) * kLn2 + 2.0 * s * series;
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_SCALAR_MATH_H_
