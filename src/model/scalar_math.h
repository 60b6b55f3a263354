// exp and log without the C library, whose results differ between versions and machines: plain
// double arithmetic in a fixed order, so every build and instruction set gives the same bits. Exact
// to a few units in the 13th digit, which rounds to a float correct to within one unit.
#ifndef TANDEM_MODEL_SCALAR_MATH_H_
#define TANDEM_MODEL_SCALAR_MATH_H_

#include <bit>
#include <cstdint>

namespace tandem::model {

// e to the x for x up to 700. Below -700, and for NaN, zero. Branch-free, so loops over it
// vectorise.
inline double Exp(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  // ln 2 in two parts; the first has 21 trailing zero bits, so its product with n is exact.
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  // Adding this rounds to an integer, which then lies in the low bits of the sum.
  constexpr double kRound = 0x1.8p52;
  const double clamped = x > -700.0 ? x : -700.0;
  const double shifted = clamped * kLog2E + kRound;
  const double n = shifted - kRound;
  const double r = (clamped - n * kLn2High) - n * kLn2Low;
  double sum = 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const uint64_t exponent = std::bit_cast<uint64_t>(shifted) << 52;
  const double power = std::bit_cast<double>(std::bit_cast<uint64_t>(sum) + exponent);
  return x > -700.0 ? power : 0.0;
}

// The natural logarithm of a positive normal number.
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
